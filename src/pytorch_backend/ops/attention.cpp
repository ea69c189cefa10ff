// Attention: scaled_dot_product_attention asks _fused_sdp_choice and takes the overrideable entries, or PyTorch's own
// composition (math).
#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_permuted.h>
#include <ATen/ops/scalar_tensor.h>
#include <clprim/attention.hpp>
#include <torch/library.h>

#include <ops/random.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Whether the fused kernels compute this; sizes may be symbolic. What PyTorch refuses is left to math, for its message.
bool fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
           bool causal, bool grouped)
{
    const auto same = [](const c10::SymInt& a, const c10::SymInt& b) {
        return a.sym_eq(b).guard_bool(__FILE__, __LINE__);
    };
    const std::int64_t dims = query.dim();
    for (const at::Tensor* t : {&query, &key, &value}) {
        if (t->is_nested() || t->dim() != dims || (dims != 3 && dims != 4) || t->scalar_type() != query.scalar_type() ||
            !at::isFloatingType(t->scalar_type()))
            return false;
        for (const c10::SymInt& size : t->sym_sizes())
            if (same(size, 0))
                return false;
        if (!t->sym_size(-1).sym_le(clprim::longest_fused_head).guard_bool(__FILE__, __LINE__))
            return false;
    }
    const auto queries = query.sym_sizes(), keys = key.sym_sizes(), values = value.sym_sizes();
    if (!same(keys[dims - 1], queries[dims - 1]) || !same(values[dims - 2], keys[dims - 2]) ||
        !same(values[dims - 3], keys[dims - 3]))
        return false;
    if (dims == 4 && (!same(keys[0], queries[0]) || !same(values[0], queries[0])))
        return false;
    if (!same(queries[dims - 3], keys[dims - 3]) && !(grouped && same(queries[dims - 3] % keys[dims - 3], 0)))
        return false;
    if (!mask || !mask->defined())
        return true;
    if (causal || (mask->requires_grad() && at::GradMode::is_enabled()) || mask->dim() > dims ||
        (mask->scalar_type() != at::kBool && mask->scalar_type() != query.scalar_type()))
        return false;
    for (std::int64_t back = 1; back <= mask->dim(); ++back) {
        const c10::SymInt &size = mask->sym_size(-back), &whole = back == 1 ? keys[dims - 2] : queries[dims - back];
        if (!same(size, 1) && !same(size, whole))
            return false;
    }
    return true;
}

// Whether a tensor has a forward derivative or is batched by vmap, at any level of torch.func's transformations.
// PyTorch has rules for what math consists of, and none for the fused operators.
bool needs_composition(const OptionalTensor& tensor)
{
    if (!tensor || !tensor->defined())
        return false;
    at::Tensor level = *tensor;
    while (true) {
        if (at::functorch::isBatchedTensor(level) || level._fw_grad(0).defined())
            return true;
        const auto* wrapper = at::functorch::maybeGetTensorWrapper(level);
        if (wrapper == nullptr)
            return false;
        level = at::Tensor(wrapper->value());
    }
}

// torch.nn.attention.sdpa_kernel: any of the fused choices means these kernels.
std::int64_t fused_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const OptionalTensor& mask, double, bool causal, std::optional<double>, bool grouped)
{
    const at::Context& context = at::globalContext();
    const bool wanted =
        context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP();
    at::SDPBackend choice = context.userEnabledMathSDP() ? at::SDPBackend::math : at::SDPBackend::error;
    if (needs_composition(query) || needs_composition(key) || needs_composition(value) || needs_composition(mask))
        return static_cast<std::int64_t>(at::SDPBackend::math);
    if (wanted && fused(query, key, value, mask, causal, grouped))
        choice = at::SDPBackend::overrideable;
    return static_cast<std::int64_t>(choice);
}

at::Tensor batched(const at::Tensor& t) { return t.dim() == 3 ? t.unsqueeze(0) : t; }

clprim::Attention problem_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& mask, bool causal, std::optional<double> scale)
{
    clprim::Attention p{view(query), view(key), view(value), view(mask)};
    p.scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
    p.causal = causal;
    return p;
}

// A result in the order of query's axes in memory, so that [B, H, L, E] made from [B, L, H, E] goes back without a
// copy.
at::Tensor result_like(const at::Tensor& query, std::int64_t size)
{
    std::vector<std::int64_t> sizes = query.sizes().vec(), order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return query.stride(a) > query.stride(b); });
    sizes.back() = size;
    return at::empty_permuted(sizes, order, query.options());
}

at::Tensor number(std::uint64_t value) { return at::scalar_tensor(static_cast<std::int64_t>(value), at::kLong); }

using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                                 at::Tensor, at::Tensor>;

ForwardResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const OptionalTensor& bias, double dropout, bool causal, bool debug_mask,
                        std::optional<double> scale)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!debug_mask,
                                "_scaled_dot_product_fused_attention_overrideable: return_debug_mask is not supported");
    const at::Tensor q = batched(query), k = batched(key), v = batched(value), y = result_like(query, value.size(-1));
    const at::Tensor logsumexp =
        at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::toOpMathType(q.scalar_type())));
    clprim::Attention p = problem_of(q, k, v, bias, causal, scale);
    p.dropout = dropout;
    if (dropout > 0)
        p.state = next_state(std::nullopt, query);
    clprim::attention(current_queue(query), p, view(batched(y)), view(logsumexp));
    return {y, logsumexp, {}, {}, q.size(2), k.size(2), number(p.state.seed), number(p.state.offset), {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
attention_backward(const at::Tensor& grad_y, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const at::Tensor& bias, std::array<bool, 4> wanted, const at::Tensor& y, const at::Tensor& logsumexp,
                   const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t, double dropout, bool causal,
                   const at::Tensor& seed, const at::Tensor& offset, std::optional<double> scale)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!wanted[3],
                                "scaled_dot_product_attention: the fused kernels give no gradient of attn_mask; use "
                                "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)");
    const at::Tensor q = batched(query), k = batched(key), v = batched(value), out = batched(y), grad = batched(grad_y);
    clprim::Attention p = problem_of(q, k, v, bias, causal, scale);
    p.dropout = dropout;
    if (dropout > 0)
        p.state = {static_cast<std::uint64_t>(seed.item<std::int64_t>()),
                   static_cast<std::uint64_t>(offset.item<std::int64_t>())};
    std::array<at::Tensor, 3> gradients;
    const at::Tensor* inputs[] = {&query, &key, &value};
    for (std::size_t i = 0; i < 3; ++i)
        if (wanted[i])
            gradients[i] = at::empty_like(*inputs[i]);
    const auto gradient = [&](std::size_t i) {
        return gradients[i].defined() ? view(batched(gradients[i])) : clprim::Tensor();
    };
    clprim::attention_backward(current_queue(query), p, {view(out), view(logsumexp), view(grad)},
                               {gradient(0), gradient(1), gradient(2)});
    return {gradients[0], gradients[1], gradients[2], {}};
}

// The operators that scaled_dot_product_attention takes on CPUs, which saved graphs and traces of models hold.
void check_flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout, bool causal,
                 const OptionalTensor& mask)
{
    constexpr const char* name = "_scaled_dot_product_flash_attention_for_cpu";
    TORCH_CHECK(dropout == 0, name, ": expected dropout_p = 0, got ", dropout);
    TORCH_CHECK(query.dim() == 4, name, ": expected a query of 4 dimensions, got ", query.dim());
    TORCH_CHECK(!mask || !mask->defined() || mask->scalar_type() == query.scalar_type(), name,
                ": expected attn_mask of query's dtype ", query.scalar_type(), ", got ", mask->scalar_type());
    TORCH_CHECK(fused(query, key, value, mask, causal, true), name,
                ": expected query, key and value of one floating dtype with matching sizes, and heads of at most ",
                clprim::longest_fused_head);
}

std::tuple<at::Tensor, at::Tensor> flash_for_cpu(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, double dropout, bool causal,
                                                 const OptionalTensor& mask, std::optional<double> scale)
{
    check_flash(query, key, value, dropout, causal, mask);
    const ForwardResult found = attention(query, key, value, mask, 0, causal, false, scale);
    return {std::get<0>(found), std::get<1>(found)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
flash_for_cpu_backward(const at::Tensor& grad_y, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, const at::Tensor& y, const at::Tensor& logsumexp, double dropout,
                       bool causal, const OptionalTensor& mask, std::optional<double> scale)
{
    check_flash(query, key, value, dropout, causal, mask);
    const auto found = attention_backward(grad_y, query, key, value, mask.value_or(at::Tensor()),
                                          {true, true, true, false}, y, logsumexp, {}, {}, 0, 0, 0, causal, {}, {},
                                          scale);
    return {std::get<0>(found), std::get<1>(found), std::get<2>(found)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fused_sdp_choice", fused_choice);
    m.impl("_scaled_dot_product_flash_attention_for_cpu", flash_for_cpu);
    m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flash_for_cpu_backward);
    m.impl("_scaled_dot_product_fused_attention_overrideable", attention);
    m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

}  // namespace
}  // namespace torch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_ocl::fused_choice)
}
