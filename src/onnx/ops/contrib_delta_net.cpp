// com.microsoft's gated delta networks over packed batches: tokens of all sequences one after the other.
#include <algorithm>
#include <cmath>

#include <clprim/copy.hpp>
#include <clprim/linear_attention.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

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

// Queries or keys in float32, normalised where that is asked for: [tokens, heads, size].
Tensor dense_heads(const Call& call, const Tensor& x)
{
    Tensor dense = call.allocate(x.shape, DataType::float32);
    copy(call.queue(), x, dense);
    if (call.integer_attribute("qk_l2_norm", 0) != 0)
        dense = Compose(call)("Mul", {Value(dense), Value(inverse_norms(call, dense))}).device(call.queue());
    return dense;
}

// Each head as often as values share it.
Tensor shared_heads(const Call& call, const Tensor& dense, const DeltaSizes& s)
{
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

// The first transitions of each sequence (input 9 says how many, at most `capacity`), by which its states can be made
// again: [batch, all decays, all keys, all deltas], 0 behind them. `keys` are those that values share.
Value captured_transitions(const Call& call, const LinearAttention& p, const Tensor& keys,
                           const std::vector<std::int64_t>& ends, std::int64_t capacity)
{
    const Compose op(call);
    auto counts = captured_counts(call, 9, capacity, ends);
    if (call.has(10) && call.integer(10) == 0)
        std::ranges::fill(counts, 0);
    const std::int64_t batch = static_cast<std::int64_t>(ends.size()) - 1, heads = p.heads, size = p.query.size(2),
                       value_size = p.value.size(2);
    const auto axes = [](std::initializer_list<std::int64_t> sizes) { return Value::ints(std::span(sizes)); };
    const auto rows = [&](const Tensor& t, const Value& index) { return op("Gather", {Value(t), index}); };
    const std::int64_t widths[] = {p.decay.defined() ? p.decay.numel() / p.decay.size(0) : heads,
                                   keys.size(1) * size, heads * value_size};
    std::vector<Value> parts[3];
    Value state(p.state);                                // [batch, heads, size, value_size]
    for (std::int64_t step = 0; step < capacity; ++step) {
        std::vector<std::int64_t> at;
        std::vector<float> is_there;
        for (std::size_t b = 0; b < counts.size(); ++b) {
            at.push_back(step < counts[b] ? ends[b] + step : 0);
            is_there.push_back(step < counts[b] ? 1.0F : 0.0F);
        }
        if (std::ranges::none_of(is_there, [](float there) { return there > 0; })) {
            for (std::size_t i = 0; i < 3; ++i)
                parts[i].push_back(Value::zeros(ElementType::float32, {batch, widths[i]}));
            continue;
        }
        const Value index = Value::ints(at), there = Value::copy_of(ElementType::float32, {batch, 1}, is_there.data());
        const Value decay = p.decay.defined() ? op("Exp", {rows(p.decay, index)})
                                              : op("Expand", {op.number(1, ElementType::float32),
                                                              axes({batch, heads, 1})});
        const Value decayed = op("Mul", {state, op("Reshape", {decay, axes({batch, heads, -1, 1})})});
        const Value key = rows(p.key, index);
        Value delta = rows(p.value, index);
        if (p.beta.defined()) {
            const Value found = op("MatMul", {op("Reshape", {key, axes({batch, heads, 1, size})}), decayed});
            delta = op("Sub", {delta, op("Reshape", {found, axes({batch, heads, value_size})})});
            delta = op("Mul", {delta, op("Reshape", {rows(p.beta, index), axes({batch, heads, 1})})});
        }
        state = op("Add", {decayed, op("Mul", {op("Reshape", {key, axes({batch, heads, size, 1})}),
                                               op("Reshape", {delta, axes({batch, heads, 1, value_size})})})});
        const Value found[] = {decay, rows(keys, index), delta};
        for (std::size_t i = 0; i < 3; ++i)
            parts[i].push_back(op("Mul", {op("Reshape", {found[i], axes({batch, widths[i]})}), there}));
    }
    std::vector<Value> all;
    for (const auto& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    return op("Concat", std::move(all), {{"axis", std::int64_t{1}}});
}

void gated_delta_net(Call& call)
{
    const std::string rule = call.string_attribute("update_rule", "gated_delta");
    call.check(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta", "update_rule is '",
               rule, "', expected linear, gated, delta or gated_delta");
    const std::int64_t capacity = call.integer_attribute("state_update_capacity", 0);
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
    p.query = shared_heads(call, dense_heads(call, in.query), s);
    const Tensor keys = dense_heads(call, in.key);
    p.key = shared_heads(call, keys, s);
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
    if (call.wants(2) && capacity > 0)                   // ahead of run_delta, which replaces the states
        call.output(2, captured_transitions(call, p, keys, ends, capacity));
    else if (captured_counts(call, 9, capacity, ends); call.wants(2))
        call.output(2, Value::zeros(ElementType::float32, {batch, 0}));
    run_delta(call, p, ends);
    Dims shape = s.outer;
    shape.push_back(s.heads);
    shape.push_back(s.value_size);
    call.output(0, Value(converted(call, p.y.reshape(shape), storage_type(call.type(0))), call.type(0)));
    if (call.wants(1))
        copy(call.queue(), p.state.transpose(2, 3), call.output_tensor(1, turned, ElementType::float32));
}

const OperatorRow contrib_delta_net_rows[] = {
    {"GatedDeltaNet", 1, gated_delta_net, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_delta_net_operators() { return contrib_delta_net_rows; }

}  // namespace clprim::onnx
