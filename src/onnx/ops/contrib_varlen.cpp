// com.microsoft's recurrences over packed batches: tokens of all sequences one after the other.
#include <algorithm>
#include <cmath>

#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/linear_attention.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

std::vector<std::int64_t> packed_ends(const Call& call, std::size_t input, std::int64_t tokens)
{
    const auto ends = call.ints(input);
    call.check(call.shape(input).size() == 1 && ends.size() >= 1 && ends.front() == 0 && ends.back() == tokens &&
                   std::ranges::is_sorted(ends),
               "input ", input, " must rise from 0 to the ", tokens, " tokens that there are");
    return ends;
}

std::vector<std::int64_t> captured_counts(const Call& call, std::size_t input, std::int64_t capacity,
                                          const std::vector<std::int64_t>& ends)
{
    call.check(capacity >= 0 && capacity <= 8, "state_update_capacity is ", capacity, ", expected 0 to 8");
    call.check(call.has(input) == (capacity > 0), "state_update_capacity is ", capacity, ", capture_count is ",
               call.has(input) ? "there" : "missing");
    if (capacity == 0)
        return {};
    auto counts = call.ints(input);
    call.check(counts.size() + 1 == ends.size(), "capture_count has ", counts.size(), " elements, expected ",
               ends.size() - 1);
    for (std::size_t b = 0; b < counts.size(); ++b)
        counts[b] = std::clamp<std::int64_t>(counts[b], 0, std::min(capacity, ends[b + 1] - ends[b]));
    return counts;
}

namespace {

// ---- convolutions ----

// The depthwise convolution of each sequence, whose first tokens see the state that it came with.
void varlen_causal_conv(Call& call)
{
    for (const std::size_t i : {6u, 7u})
        call.check(!call.has(i), "kernel_delta and previous_mask are not supported");
    const Dims x = call.shape(0), w = call.shape(1);
    const std::int64_t dilation = call.integer_attribute("dilation", 1);
    call.check(x.size() == 2 && w.size() == 3 && w[0] == x[1] && w[1] == 1 && w[2] > 0, "input ", to_string(x),
               " and weight ", to_string(w), " must be [tokens, channels] and [channels, 1, k]");
    call.check(dilation > 0 && dilation < (1 << 20), "dilation is ", dilation);
    const std::string activation = call.string_attribute("activation", "none");
    call.check(activation == "none" || activation == "silu" || activation == "swish", "activation is '", activation,
               "', expected none, silu or swish");
    const auto ends = packed_ends(call, 2, x[0]);
    const auto batch = static_cast<std::int64_t>(ends.size()) - 1;
    const std::int64_t channels = x[1], carried = (w[2] - 1) * dilation;
    const Tensor source = call.contiguous(0), state = call.tensor(4);
    call.check(state.shape == Dims{batch, channels, carried}, "initial_state has shape ", to_string(state.shape),
               ", expected ", to_string(Dims{batch, channels, carried}));
    const std::int64_t capacity = call.integer_attribute("state_update_capacity", 0);
    const auto captured = captured_counts(call, 5, capacity, ends);
    const Tensor y = call.output_tensor(0, x, call.type(0));
    const Tensor last = call.output_tensor(1, state.shape, call.type(0));
    Tensor updates;
    if (call.wants(2)) {
        updates = call.output_tensor(2, {batch, capacity, channels}, call.type(0));
        fill(call.queue(), updates, 0);
    }
    ConvOptions options;
    options.groups = channels;
    options.dilation = {dilation};
    options.pad_begin = options.pad_end = {0};
    for (std::int64_t b = 0; b < batch && x.product() > 0; ++b) {
        const std::int64_t begin = ends[static_cast<std::size_t>(b)], end = ends[static_cast<std::size_t>(b + 1)];
        const auto channels_first = [&](const Tensor& rows) {
            return rows.slice(0, begin, end).reshape({1, end - begin, channels}).transpose(1, 2);
        };
        const Tensor whole = call.allocate({1, channels, carried + end - begin}, source.dtype);
        copy(call.queue(), state.slice(0, b, b + 1), whole.slice(2, 0, carried));
        copy(call.queue(), channels_first(source), whole.slice(2, carried, whole.size(2)));
        copy(call.queue(), whole.slice(2, end - begin, whole.size(2)), last.slice(0, b, b + 1));
        if (end > begin) {
            const Tensor one = call.allocate({1, channels, end - begin}, source.dtype);
            conv_forward(call.queue(), whole, call.tensor(1), call.has(3) ? call.contiguous(3) : Tensor(), one,
                         options);
            copy(call.queue(), one, channels_first(y));
        }
        if (!updates.defined() || capacity == 0)
            continue;
        const std::int64_t count = captured[static_cast<std::size_t>(b)];
        copy(call.queue(), source.slice(0, begin, begin + count),
             updates.slice(0, b, b + 1).slice(1, 0, count).reshape({count, channels}));
    }
    if (activation != "none")
        pointwise_output(call, "silu", std::span(&y, 1), y.dtype);
}

// ---- gated delta networks ----

// Heads of queries and keys, of values, and their sizes.
struct DeltaSizes {
    std::int64_t tokens, key_heads, heads, key_size, value_size;
    Dims outer;                                // the axes of tokens: one, or batch and length
};

struct DeltaInputs {
    Tensor query, key, value;                  // [tokens, heads, size], views
    DeltaSizes sizes;
};

DeltaInputs delta_inputs(const Call& call)
{
    const Tensor query = call.tensor(0);
    const bool packed = !call.has(1);
    call.check(packed == !call.has(2), "key and value must both be there or not");
    const std::size_t own = packed ? 1 : 2;    // axes behind those of tokens
    call.check(query.dim() == own + 1 || query.dim() == own + 2, "query has shape ", to_string(query.shape));
    const Dims outer(std::span<const std::int64_t>(query.shape).first(query.dim() - own));
    const std::int64_t tokens = outer.product();
    const auto rows = [&](std::size_t i) {
        const Tensor t = call.contiguous(i);
        call.check(t.dim() == outer.size() + 2 && t.numel() == tokens * t.size(t.dim() - 2) * t.size(t.dim() - 1),
                   "input ", i, " has shape ", to_string(t.shape), ", which does not fit query's ",
                   to_string(query.shape));
        return t.reshape({tokens, t.size(t.dim() - 2), t.size(t.dim() - 1)});
    };
    if (!packed) {
        const Tensor q = rows(0), k = rows(1), v = rows(2);
        call.check(k.shape == q.shape, "query and key have shapes ", to_string(q.shape), " and ", to_string(k.shape));
        return {q, k, v, {tokens, q.size(1), v.size(1), q.size(2), v.size(2), outer}};
    }
    call.check(call.has(6) && call.shape(6).size() == 4, "a packed query needs initial_state with four axes");
    const Dims& state = call.shape(6);
    const std::int64_t width = query.shape.back(), values = state[1] * state[2], rest = width - values;
    call.check(state[3] > 0 && rest > 0 && rest % (2 * state[3]) == 0, "a packed query of ", width,
               " and initial_state ", to_string(state), " do not fit");
    const std::int64_t heads = rest / (2 * state[3]), keys = heads * state[3];
    const Tensor all = call.contiguous(0).reshape({tokens, width});
    const auto part = [&](std::int64_t begin, std::int64_t count, std::int64_t size) {
        Tensor t = all.slice(1, begin, begin + count * size);
        t.shape = {tokens, count, size};
        t.strides = {width, size, 1};
        return t;
    };
    return {part(0, heads, state[3]), part(keys, heads, state[3]), part(2 * keys, state[1], state[2]),
            {tokens, heads, state[1], state[3], state[2], outer}};
}

// 1 / the length of each vector.
Tensor inverse_norms(const Call& call, const Tensor& x)
{
    const Compose op(call);
    const Value sums = op("ReduceSumSquare", {Value(x), Value::ints(std::array{std::int64_t{2}})});
    const Tensor y = sums.device(call.queue());
    const Tensor result = call.allocate(y.shape, DataType::float32);
    pointwise(call.queue(), std::span(&y, 1), std::span(&result, 1), {}, "y0 = rsqrt(x0 + 1e-6f);");
    return result;
}

// Queries or keys in float32, each head as often as values share it: [tokens, heads, size].
Tensor shared_heads(const Call& call, const Tensor& x, const DeltaSizes& s)
{
    Tensor dense = call.allocate(x.shape, DataType::float32);
    copy(call.queue(), x, dense);
    if (call.integer_attribute("qk_l2_norm", 0) != 0)
        dense = Compose(call)("Mul", {Value(dense), Value(inverse_norms(call, dense))}).device(call.queue());
    const std::int64_t times = s.heads / s.key_heads;
    if (times == 1)
        return dense;
    const Tensor all = call.allocate({s.tokens, s.key_heads, times, s.key_size}, DataType::float32);
    Tensor repeated = dense.reshape({s.tokens, s.key_heads, 1, s.key_size});
    repeated.shape = all.shape;
    repeated.strides[2] = 0;
    copy(call.queue(), repeated, all);
    return all.reshape({s.tokens, s.heads, s.key_size});
}

// exp(a_log) for heads, dt_bias for heads or their rows, before the decay that is given: log decays in float32.
Tensor decays(const Call& call, const DeltaSizes& s)
{
    const std::int64_t each = call.input(4).numel() / std::max<std::int64_t>(1, s.tokens * s.heads);
    call.check(call.input(4).numel() == s.tokens * s.heads * each && (each == 1 || each == s.key_size),
               "decay has shape ", to_string(call.shape(4)));
    const Tensor given = converted(call, call.contiguous(4), DataType::float32).reshape({s.tokens, s.heads, each});
    const std::string kind = call.string_attribute("gate_activation", "none");
    if (kind == "none")
        return given;
    const bool softplus = kind == "softplus" || kind == "qwen";
    call.check(softplus || kind == "sigmoid" || kind == "kda", "gate_activation is '", kind, "'");
    call.check(call.has(7) && call.has(8) && call.input(7).numel() == s.heads &&
                   (call.input(8).numel() == s.heads || call.input(8).numel() == s.heads * each),
               "gate_activation needs a_log and dt_bias of ", s.heads, " heads");
    const Tensor inputs[] = {given, call.contiguous(7).reshape({1, s.heads, 1}),
                             call.contiguous(8).reshape({1, s.heads, call.input(8).numel() / s.heads})};
    const Tensor result = call.allocate(given.shape, DataType::float32);
    const Scalar bound = call.float_attribute("gate_lower_bound", -5);
    pointwise(call.queue(), inputs, std::span(&result, 1), std::span(&bound, 1),
              softplus ? "float z = x0 + x2; y0 = -exp(x1) * (z > 20 ? z : log1p(exp(z))) + 0 * w0;"
                       : "y0 = w0 / (1 + exp(-exp(x1) * (x0 + x2)));");
    return result;
}

Tensor betas(const Call& call, const DeltaSizes& s)
{
    const std::string kind = call.string_attribute("beta_activation", "none");
    call.check(kind == "none" || kind == "sigmoid", "beta_activation is '", kind, "'");
    call.check(call.input(5).numel() == s.tokens * s.heads, "beta has shape ", to_string(call.shape(5)));
    const Tensor given = converted(call, call.contiguous(5), DataType::float32).reshape({s.tokens, s.heads});
    return kind == "none" ? given : Compose(call)("Sigmoid", {Value(given)}).device(call.queue());
}

// Sequences of `ends`, each by itself.
void run_delta(const Call& call, const LinearAttention& all, const std::vector<std::int64_t>& ends)
{
    const auto rows = [&](const Tensor& t, std::int64_t begin, std::int64_t end) {
        return t.defined() ? t.slice(0, begin, end).reshape({1, end - begin, t.numel() / t.size(0)}) : Tensor();
    };
    for (std::size_t b = 0; b + 1 < ends.size(); ++b) {
        const std::int64_t begin = ends[b], end = ends[b + 1], at = static_cast<std::int64_t>(b);
        if (begin == end)
            continue;
        LinearAttention one = all;
        for (Tensor LinearAttention::* field : {&LinearAttention::query, &LinearAttention::key, &LinearAttention::value,
                                                &LinearAttention::decay, &LinearAttention::beta, &LinearAttention::y})
            one.*field = rows(all.*field, begin, end);
        one.state = all.state.slice(0, at, at + 1);
        linear_attention(call.queue(), one);
    }
}

void gated_delta_net(Call& call)
{
    const std::string rule = call.string_attribute("update_rule", "gated_delta");
    call.check(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta", "update_rule is '",
               rule, "', expected linear, gated, delta or gated_delta");
    call.check(!call.wants(2) && call.integer_attribute("state_update_capacity", 0) == 0,
               "the output state_update is not supported");
    const DeltaInputs in = delta_inputs(call);
    const DeltaSizes& s = in.sizes;
    call.check(s.key_heads > 0 && s.heads > 0 && s.heads % s.key_heads == 0 && s.key_size > 0, s.heads,
               " heads of values and ", s.key_heads, " of keys do not fit");
    std::vector<std::int64_t> ends;
    if (call.has(3)) {
        call.check(s.outer.size() == 1, "cu_seqlens are for tokens on one axis");
        ends = packed_ends(call, 3, s.tokens);
    } else {
        call.check(call.has(6) && call.shape(6).size() == 4, "without cu_seqlens there must be initial_state");
        const std::int64_t count = call.shape(6)[0];
        call.check(count > 0 && s.tokens % count == 0 && (s.outer.size() == 1 || s.outer[0] == count), s.tokens,
                   " tokens are not ", count, " sequences of one length");
        for (std::int64_t b = 0; b <= count; ++b)
            ends.push_back(b * (s.tokens / count));
    }
    const auto batch = static_cast<std::int64_t>(ends.size()) - 1;
    LinearAttention p;
    p.heads = p.kv_heads = s.heads;
    p.query = shared_heads(call, in.query, s);
    p.key = shared_heads(call, in.key, s);
    p.value = call.allocate(in.value.shape, DataType::float32);
    copy(call.queue(), in.value, p.value);
    if (rule.starts_with("gated"))
        p.decay = decays(call, s);
    if (rule.ends_with("delta"))
        p.beta = betas(call, s);
    const float scale = call.float_attribute("scale", 0);
    p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.key_size));
    p.state = call.allocate({batch, s.heads, s.key_size, s.value_size}, DataType::float32);
    const Dims turned{batch, s.heads, s.value_size, s.key_size};
    call.check(!call.has(6) || (call.shape(6) == turned && call.type(6) == ElementType::float32),
               "initial_state must be float32 and have shape ", to_string(turned));
    if (call.has(6))
        copy(call.queue(), call.tensor(6).transpose(2, 3), p.state);
    else
        fill(call.queue(), p.state, 0);
    p.y = call.allocate({s.tokens, s.heads, s.value_size}, DataType::float32);
    run_delta(call, p, ends);
    Dims shape = s.outer;
    shape.push_back(s.heads);
    shape.push_back(s.value_size);
    call.output(0, Value(converted(call, p.y.reshape(shape), storage_type(call.type(0))), call.type(0)));
    if (call.wants(1))
        copy(call.queue(), p.state.transpose(2, 3), call.output_tensor(1, turned, ElementType::float32));
}

const OperatorRow contrib_varlen_rows[] = {
    {"VarlenCausalConvWithState", 1, varlen_causal_conv, nullptr, microsoft},
    {"GatedDeltaNet", 1, gated_delta_net, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_varlen_operators() { return contrib_varlen_rows; }

}  // namespace clprim::onnx
