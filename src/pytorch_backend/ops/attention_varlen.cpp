// Attention over sequences of different lengths: each is a problem of its own, so that none is padded. Lengths are
// needed on the host, which waits for them once; PyTorch's jagged tensors ask for their longest row in the same way.
#include <ops/attention_varlen.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <ATen/OpMathType.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/attention.hpp>
#include <torch/library.h>

#include <ops/random.hpp>
#include <runtime/generator.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// [rows, heads, size] as [1, heads, rows, size]
Tensor sequence(const Tensor& t, const std::vector<std::int64_t>& begins, std::size_t b)
{
    return t.narrow(0, begins[b], begins[b + 1] - begins[b]).transpose(0, 1).unsqueeze(0);
}

// Which keys a query sees, where causal masking does not say it.
Tensor window_mask(const VarlenProblem& p, std::int64_t rows, std::int64_t columns)
{
    const std::int64_t own = p.bottom_right ? columns - rows : 0;
    Tensor seen = at::ones({rows, columns}, p.query.options().dtype(at::kBool));
    if (p.left >= 0)
        seen = seen.triu(own - p.left);
    return p.right >= 0 ? seen.tril(own + p.right) : seen;
}

struct Sequence {
    clprim::Attention problem;
    Tensor mask;   // keeps the problem's alive
};

Sequence sequence_of(const VarlenProblem& p, std::size_t b)
{
    const Tensor q = sequence(p.query, p.query_begins, b), k = sequence(p.key, p.key_begins, b),
                 v = sequence(p.value, p.key_begins, b);
    Sequence result;
    clprim::Attention& s = result.problem;
    s.query = view(q);
    s.key = view(k);
    s.value = view(v);
    s.scale = p.scale;
    s.dropout = p.dropout;
    s.state = {p.state.seed, p.state.offset + b};
    if (p.left < 0 && p.right >= 0) {
        s.causal = true;
        s.causal_offset = p.right + (p.bottom_right ? k.size(2) - q.size(2) : 0);
    }
    else if (p.left >= 0) {
        result.mask = window_mask(p, q.size(2), k.size(2));
        s.mask = view(result.mask.unsqueeze(0).unsqueeze(0));
    }
    return result;
}

std::int64_t length(const std::vector<std::int64_t>& begins, std::size_t b) { return begins[b + 1] - begins[b]; }

bool covers(const std::vector<std::int64_t>& begins, const Tensor& t)
{
    return begins.front() == 0 && begins.back() == t.size(0);
}

// Memory that every sequence is written to, or zeros where some rows belong to none.
Tensor rows_like(const Tensor& t, std::int64_t size, const std::vector<std::int64_t>& begins)
{
    const std::array<std::int64_t, 3> sizes = {t.size(0), t.size(1), size};
    return covers(begins, t) ? at::empty(sizes, t.options()) : at::zeros(sizes, t.options());
}

}  // namespace

VarlenResult varlen_attention(const VarlenProblem& p, bool with_logsumexp)
{
    const c10::OptionalDeviceGuard guard(p.query.device());
    VarlenResult result{rows_like(p.query, p.value.size(2), p.query_begins), {}};
    const auto options = p.query.options().dtype(at::toOpMathType(p.query.scalar_type()));
    if (with_logsumexp)
        result.logsumexp =
            at::full({p.query.size(1), p.query.size(0)}, -std::numeric_limits<double>::infinity(), options);
    for (std::size_t b = 0; b + 1 < p.query_begins.size(); ++b) {
        const std::int64_t rows = length(p.query_begins, b);
        if (rows == 0)
            continue;
        const Tensor y = sequence(result.y, p.query_begins, b);
        if (length(p.key_begins, b) == 0) {
            result.y.narrow(0, p.query_begins[b], rows).zero_();
            continue;
        }
        const Tensor sums = with_logsumexp ? at::empty({1, p.query.size(1), rows}, options) : Tensor();
        clprim::attention(current_queue(p.query), sequence_of(p, b).problem, view(y),
                          with_logsumexp ? view(sums) : clprim::Tensor());
        if (with_logsumexp)
            result.logsumexp.narrow(1, p.query_begins[b], rows).copy_(sums[0]);
    }
    return result;
}

VarlenGradients varlen_attention_backward(const VarlenProblem& p, const VarlenResult& result, const Tensor& grad_y)
{
    const c10::OptionalDeviceGuard guard(p.query.device());
    VarlenGradients gradients{rows_like(p.query, p.query.size(2), p.query_begins),
                              rows_like(p.key, p.key.size(2), p.key_begins),
                              rows_like(p.value, p.value.size(2), p.key_begins)};
    for (std::size_t b = 0; b + 1 < p.query_begins.size(); ++b) {
        const std::int64_t rows = length(p.query_begins, b), columns = length(p.key_begins, b);
        if (rows == 0 || columns == 0) {
            gradients.query.narrow(0, p.query_begins[b], rows).zero_();
            gradients.key.narrow(0, p.key_begins[b], columns).zero_();
            gradients.value.narrow(0, p.key_begins[b], columns).zero_();
            continue;
        }
        const Tensor sums = result.logsumexp.narrow(1, p.query_begins[b], rows).contiguous().unsqueeze(0);
        clprim::attention_backward(
            current_queue(p.query), sequence_of(p, b).problem,
            {view(sequence(result.y, p.query_begins, b)), view(sums), view(sequence(grad_y, p.query_begins, b))},
            {view(sequence(gradients.query, p.query_begins, b)), view(sequence(gradients.key, p.key_begins, b)),
             view(sequence(gradients.value, p.key_begins, b))});
    }
    return gradients;
}

namespace {

std::vector<std::int64_t> host_begins(const char* name, const Tensor& begins, const Tensor& t)
{
    TORCH_CHECK(begins.dim() == 1 && begins.numel() > 0 &&
                    (begins.scalar_type() == at::kInt || begins.scalar_type() == at::kLong),
                name, ": expected cumulative lengths of one dimension in int32 or int64, got ", begins.sizes(), " in ",
                begins.scalar_type());
    const Tensor host = begins.to(at::kCPU, at::kLong).contiguous();
    const auto* first = host.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> result(first, first + host.numel());
    TORCH_CHECK(std::is_sorted(result.begin(), result.end()) && result.front() >= 0 && result.back() <= t.size(0), name,
                ": expected cumulative lengths that grow from 0 to at most ", t.size(0));
    return result;
}

// Sequences of one length, [batch, rows, heads, size], as rows one behind the other.
Tensor as_rows(const Tensor& t) { return t.dim() == 4 ? t.reshape({-1, t.size(2), t.size(3)}) : t; }

std::vector<std::int64_t> even_begins(const Tensor& t)
{
    std::vector<std::int64_t> result;
    for (std::int64_t b = 0; b <= t.size(0); ++b)
        result.push_back(b * t.size(1));
    return result;
}

struct Inputs {
    const Tensor &query, &key, &value;
    const OptionalTensor &query_begins, &key_begins;
};

VarlenProblem problem_of(const char* name, const Inputs& in, std::optional<double> scale)
{
    for (const Tensor* t : {&in.query, &in.key, &in.value})
        TORCH_CHECK(t->dim() == in.query.dim() && (t->dim() == 3 || t->dim() == 4) &&
                        t->scalar_type() == in.query.scalar_type() && at::isFloatingType(t->scalar_type()),
                    name, ": expected query, key and value of one floating dtype, [rows, heads, size] or [batch, rows, "
                          "heads, size], got ", in.query.sizes(), ", ", in.key.sizes(), " and ", in.value.sizes());
    const bool varied = in.query_begins && in.query_begins->defined();
    TORCH_CHECK(varied == (in.key_begins && in.key_begins->defined()), name,
                ": expected cumulative lengths of queries and keys, or of neither");
    TORCH_CHECK(varied ? in.query.dim() == 3 || (in.query.size(0) == 1 && in.key.size(0) == 1)
                       : in.query.dim() == 4 && in.query.size(0) == in.key.size(0),
                name, ": expected ", varied ? "one batch with" : "batches of one size without", " cumulative lengths");
    VarlenProblem p;
    p.query = as_rows(in.query);
    p.key = as_rows(in.key);
    p.value = as_rows(in.value);
    p.query_begins = varied ? host_begins(name, *in.query_begins, p.query) : even_begins(in.query);
    p.key_begins = varied ? host_begins(name, *in.key_begins, p.key) : even_begins(in.key);
    TORCH_CHECK(p.query_begins.size() == p.key_begins.size() && p.key.size(0) == p.value.size(0), name,
                ": expected as many sequences of keys and values as of queries");
    p.scale = scale.value_or(1 / std::sqrt(static_cast<double>(p.query.size(2))));
    return p;
}

void draw(VarlenProblem& p, double dropout)
{
    p.dropout = dropout;
    if (dropout > 0) {
        const PhiloxState state = philox_state(std::nullopt, p.query.device(), p.query_begins.size());
        p.state = {state.seed, state.offset};
    }
}

// ---- the operator of torch.nn.attention.varlen ----

void set_window(VarlenProblem& p, bool causal, std::optional<c10::SymInt> left, std::optional<c10::SymInt> right)
{
    p.left = left ? left->expect_int() : -1;
    p.right = causal ? 0 : right ? right->expect_int() : -1;
    p.bottom_right = true;
}

using FlashResult = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

FlashResult flash_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& begins_q,
                            const OptionalTensor& begins_k, c10::SymInt, c10::SymInt, double dropout, bool causal,
                            bool debug_mask, std::optional<double> scale, std::optional<c10::SymInt> left,
                            std::optional<c10::SymInt> right, const OptionalTensor& used, const OptionalTensor& slopes,
                            const OptionalTensor& blocks, std::optional<std::int64_t>)
{
    constexpr const char* name = "_flash_attention_forward";
    const auto given = [](const OptionalTensor& t) { return t && t->defined(); };
    TORCH_CHECK_NOT_IMPLEMENTED(!debug_mask && !given(used) && !given(slopes) && !given(blocks), name,
                                ": return_debug_mask, seqused_k, alibi_slopes and block_table are not supported");
    VarlenProblem p = problem_of(name, {query, key, value, begins_q, begins_k}, scale);
    set_window(p, causal, left, right);
    draw(p, dropout);
    VarlenResult found = varlen_attention(p, true);
    if (query.dim() == 4) {
        found.y = found.y.view({query.size(0), query.size(1), query.size(2), value.size(3)});
        found.logsumexp = found.logsumexp.view({query.size(2), query.size(0), query.size(1)}).transpose(0, 1);
    }
    // Numbers on the host, so that backward does not wait for them; without dropout nothing reads them.
    const auto numbers = at::TensorOptions().dtype(at::kUInt64);
    Tensor state = at::empty({2}, dropout > 0 ? numbers : numbers.device(query.device()));
    if (dropout > 0) {
        state.data_ptr<std::uint64_t>()[0] = p.state.seed;
        state.data_ptr<std::uint64_t>()[1] = p.state.offset;
    }
    return {found.y, found.logsumexp, state, at::empty({0}, query.options()),
            at::empty({0}, query.options())};
}

// That of PyTorch 2.11, which has no blocks.
FlashResult flash_attention_without_blocks(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const OptionalTensor& begins_q, const OptionalTensor& begins_k,
                                           c10::SymInt rows, c10::SymInt columns, double dropout, bool causal,
                                           bool debug_mask, std::optional<double> scale,
                                           std::optional<c10::SymInt> left, std::optional<c10::SymInt> right,
                                           const OptionalTensor& used, const OptionalTensor& slopes)
{
    return flash_attention(query, key, value, begins_q, begins_k, std::move(rows), std::move(columns), dropout, causal,
                           debug_mask, scale, std::move(left), std::move(right), used, slopes, {}, {});
}

std::tuple<Tensor, Tensor, Tensor>
flash_attention_backward(const Tensor& grad_y, const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& y, const Tensor& logsumexp, const Tensor& begins_q, const Tensor& begins_k,
                         c10::SymInt, c10::SymInt, double dropout, bool causal, const Tensor& state, const Tensor&,
                         std::optional<double> scale, std::optional<c10::SymInt> left, std::optional<c10::SymInt> right)
{
    VarlenProblem p = problem_of("_flash_attention_backward", {query, key, value, begins_q, begins_k}, scale);
    set_window(p, causal, left, right);
    p.dropout = dropout;
    if (dropout > 0) {
        const Tensor host = state.cpu();
        p.state = {host.const_data_ptr<std::uint64_t>()[0], host.const_data_ptr<std::uint64_t>()[1]};
    }
    const Tensor sums = logsumexp.dim() == 3 ? logsumexp.transpose(0, 1).reshape({query.size(2), -1}) : logsumexp;
    const VarlenGradients found = varlen_attention_backward(p, {as_rows(y), sums}, as_rows(grad_y));
    return {found.query.view(query.sizes()), found.key.view(key.sizes()), found.value.view(value.sizes())};
}

// ---- the operator of jagged tensors ----

// How logsumexp of sequences lies in the result of _efficient_attention_forward, as PyTorch's shapes for compilation
// have it: [sequences, heads, longest rounded up to 32].
Tensor boxed(const VarlenProblem& p, const Tensor& logsumexp, std::int64_t longest)
{
    const std::int64_t count = static_cast<std::int64_t>(p.query_begins.size()) - 1;
    Tensor result = at::zeros({count, p.query.size(1), (longest + 31) / 32 * 32}, logsumexp.options());
    for (std::int64_t b = 0; b < count; ++b)
        if (const std::int64_t rows = length(p.query_begins, b); rows > 0)
            result[b].narrow(1, 0, rows).copy_(logsumexp.narrow(1, p.query_begins[b], rows));
    return result;
}

Tensor unboxed(const VarlenProblem& p, const Tensor& box)
{
    Tensor result = at::zeros({p.query.size(1), p.query.size(0)}, box.options());
    for (std::size_t b = 0; b + 1 < p.query_begins.size(); ++b)
        if (const std::int64_t rows = length(p.query_begins, b); rows > 0)
            result.narrow(1, p.query_begins[b], rows).copy_(box[static_cast<std::int64_t>(b)].narrow(1, 0, rows));
    return result;
}

std::int64_t longest_of(const std::vector<std::int64_t>& begins)
{
    std::int64_t result = 0;
    for (std::size_t b = 0; b + 1 < begins.size(); ++b)
        result = std::max(result, length(begins, b));
    return result;
}

enum MaskType : std::int64_t { no_mask = 0, causal_from_top_left = 1, causal_from_bottom_right = 2 };

VarlenProblem efficient_problem(const char* name, const Inputs& in, const OptionalTensor& bias, std::int64_t mask,
                                std::optional<double> scale)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!bias || !bias->defined(), name, ": a bias is not supported; use "
                                "scaled_dot_product_attention of padded tensors with attn_mask");
    TORCH_CHECK(mask >= no_mask && mask <= causal_from_bottom_right, name,
                ": expected custom_mask_type of 0 to 2, got ", mask);
    VarlenProblem p = problem_of(name, in, scale);
    p.right = mask == no_mask ? -1 : 0;
    p.bottom_right = mask == causal_from_bottom_right;
    return p;
}

using EfficientResult = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt>;

EfficientResult efficient_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const OptionalTensor& bias, const OptionalTensor& begins_q,
                                    const OptionalTensor& begins_k, std::optional<c10::SymInt> longest_q,
                                    std::optional<c10::SymInt> longest_k, double dropout, std::int64_t mask,
                                    bool with_logsumexp, std::optional<double> scale, const OptionalTensor& used,
                                    std::optional<std::int64_t> window)
{
    constexpr const char* name = "_efficient_attention_forward";
    TORCH_CHECK_NOT_IMPLEMENTED((!used || !used->defined()) && window.value_or(0) <= 0, name,
                                ": seqlen_k and window_size are not supported");
    VarlenProblem p = efficient_problem(name, {query, key, value, begins_q, begins_k}, bias, mask, scale);
    draw(p, dropout);
    const VarlenResult found = varlen_attention(p, with_logsumexp);
    std::vector<std::int64_t> sizes = query.sizes().vec();
    sizes.back() = value.size(-1);
    const std::int64_t rows = std::max(longest_of(p.query_begins), longest_q ? longest_q->expect_int() : 0),
                       columns = std::max(longest_of(p.key_begins), longest_k ? longest_k->expect_int() : 0);
    const auto number = [](std::uint64_t x) { return at::scalar_tensor(static_cast<std::int64_t>(x), at::kLong); };
    const Tensor sums = with_logsumexp ? boxed(p, found.logsumexp, rows)
                                       : at::empty({static_cast<std::int64_t>(p.query_begins.size()) - 1,
                                                    p.query.size(1), 0},
                                                   query.options().dtype(at::toOpMathType(query.scalar_type())));
    return {found.y.view(sizes), sums, number(p.state.seed), number(p.state.offset), rows, columns};
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
efficient_attention_backward(const Tensor& grad_y, const Tensor& query, const Tensor& key, const Tensor& value,
                             const OptionalTensor& bias, const Tensor& y, const OptionalTensor& begins_q,
                             const OptionalTensor& begins_k, c10::SymInt, c10::SymInt, const Tensor& logsumexp,
                             double dropout, const Tensor& seed, const Tensor& offset, std::int64_t mask, bool,
                             std::optional<double> scale, std::optional<std::int64_t>, std::optional<std::int64_t>,
                             bool)
{
    if (!grad_y.defined())
        return {};
    VarlenProblem p = efficient_problem("_efficient_attention_backward", {query, key, value, begins_q, begins_k}, bias,
                                        mask, scale);
    p.dropout = dropout;
    if (dropout > 0)
        p.state = {static_cast<std::uint64_t>(seed.item<std::int64_t>()),
                   static_cast<std::uint64_t>(offset.item<std::int64_t>())};
    const VarlenGradients found =
        varlen_attention_backward(p, {as_rows(y), unboxed(p, logsumexp)}, as_rows(grad_y));
    return {found.query.view(query.sizes()), found.key.view(key.sizes()), found.value.view(value.sizes()), {}};
}

// These are no public operators: other releases of PyTorch give them other arguments, and refuse a kernel with these.
template <typename Function>
void implement(torch::Library& library, const char* name, std::size_t arguments, Function* function)
{
    const auto op = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""});
    if (op && op->schema().arguments().size() == arguments)
        library.impl(name, function);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    implement(m, "_flash_attention_forward", 17, &flash_attention);
    implement(m, "_flash_attention_forward", 15, &flash_attention_without_blocks);
    implement(m, "_flash_attention_backward", 17, &flash_attention_backward);
    implement(m, "_efficient_attention_forward", 14, &efficient_attention);
    implement(m, "_efficient_attention_backward", 20, &efficient_attention_backward);
}

}  // namespace
}  // namespace torch_ocl
