// Attention in its forms: scaled dot products, with subgraphs in between; rotary embeddings.
#include <cmath>

#include <clprim/attention.hpp>
#include <clprim/concat.hpp>
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/reduce.hpp>
#include <clprim/sequence.hpp>
#include <clprim/softmax.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/linear_attention.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// [B, S, heads D] seen as [B, heads, S, D]; tensors with four axes have that form already.
Tensor split_heads(const Call& call, const Tensor& t, std::int64_t heads)
{
    if (t.dim() == 4)
        return t;
    call.check(heads > 0 && t.size(2) % heads == 0, "a hidden size of ", t.size(2), " cannot be split into ", heads,
               " heads");
    Tensor result = t;
    const std::int64_t size = t.size(2) / heads;
    result.shape = {t.size(0), heads, t.size(1), size};
    result.strides = {t.stride(0), size * t.stride(2), t.stride(1), t.stride(2)};
    return result;
}

// c = alpha a b for a [B, Hq, ...], b [B, Hkv, ...], where query heads share key heads in order.
void multiply_heads(const Call& call, const Tensor& a, const Tensor& b, const Tensor& c, double alpha)
{
    batched_product(call.queue(), grouped(a, b.size(1)), grouped(b, b.size(1)), grouped(c, b.size(1)), alpha);
}

struct Heads {
    Tensor q, k, v;                        // [B, Hq, L, D], [B, Hkv, S, D], [B, Hkv, S, Dv]
    std::int64_t queries() const { return q.size(2); }
    std::int64_t keys() const { return k.size(2); }
};

void check_heads(const Call& call, const Heads& h)
{
    call.check(h.q.dim() == 4 && h.k.dim() == 4 && h.v.dim() == 4, "Q, K and V must have four axes");
    call.check(h.q.dtype == h.k.dtype && is_floating_point(h.q.dtype) && is_floating_point(h.v.dtype),
               "Q, K and V must be floating point, Q and K of one type");
    call.check(h.k.size(0) == h.q.size(0) && h.v.size(0) == h.q.size(0) && h.k.size(3) == h.q.size(3) &&
                   h.v.size(1) == h.k.size(1) && h.v.size(2) == h.k.size(2),
               "Q ", to_string(h.q.shape), ", K ", to_string(h.k.shape), " and V ", to_string(h.v.shape),
               " do not fit");
    call.check(h.k.size(1) > 0 && h.q.size(1) % h.k.size(1) == 0, h.q.size(1), " query heads cannot share ",
               h.k.size(1), " key heads");
}

double default_scale(const Call& call, const Heads& h)
{
    return call.has_attribute("scale") ? call.float_attribute("scale", 1)
                                       : 1 / std::sqrt(static_cast<double>(h.q.size(3)));
}

// Keys from the cache in front of the new ones; the result is an output, too.
Tensor with_past(Call& call, const Tensor& fresh, std::size_t past, std::size_t present)
{
    if (!call.has(past)) {
        if (call.wants(present))
            call.output(present, Value(fresh));
        return fresh;
    }
    const Tensor cached = call.tensor(past);
    call.check(cached.dim() == 4 && cached.dtype == fresh.dtype && cached.size(0) == fresh.size(0) &&
                   cached.size(1) == fresh.size(1) && cached.size(3) == fresh.size(3),
               "past ", to_string(cached.shape), " does not fit ", to_string(fresh.shape));
    const Tensor whole =
        call.allocate({fresh.size(0), fresh.size(1), cached.size(2) + fresh.size(2), fresh.size(3)}, fresh.dtype);
    const Tensor parts[] = {cached, fresh};
    concat(call.queue(), parts, 2, whole);
    call.output(present, Value(whole));
    return whole;
}

// The mask with the last axis as long as there are keys; what is missing is hidden.
Tensor padded_mask(const Call& call, std::int64_t keys)
{
    const Tensor mask = call.tensor(3);
    call.check(mask.dim() >= 1 && mask.dim() <= 4 && (mask.shape.back() <= keys), "attn_mask ", to_string(mask.shape),
               " does not broadcast to ", keys, " keys");
    if (mask.shape.back() == keys || mask.shape.back() == 1)
        return mask;
    Dims shape = mask.shape;
    shape[mask.dim() - 1] = keys;
    const Tensor result = call.allocate(shape, mask.dtype);
    fill(call.queue(), result, mask.dtype == DataType::boolean ? 0 : -std::numeric_limits<double>::infinity());
    copy(call.queue(), mask, result.slice(mask.dim() - 1, 0, mask.shape.back()));
    return result;
}

Tensor positions(const Call& call, std::int64_t count, const Dims& shape)
{
    const Tensor result = call.allocate({count}, DataType::int32);
    arange(call.queue(), result, std::int64_t{0}, std::int64_t{1});
    return result.reshape(shape);
}

// What is added to the scores: 0 or the mask's number where a query sees a key, -inf where not. Undefined if all is
// seen. A query stands `offset` keys behind the first: after the cache, or so that the last query sees the last valid
// key.
Tensor attention_bias(const Call& call, const Heads& h)
{
    const bool causal = call.integer_attribute("is_causal", 0) != 0, masked = call.has(3), counted = call.has(6);
    const std::int64_t left = call.integer_attribute("left_window_size", -1),
                       right = call.integer_attribute("right_window_size", -1);
    call.check(left >= -1 && right >= -1, "window sizes ", left, " and ", right, " must not be below -1");
    if (!causal && !masked && !counted && left < 0 && right < 0)
        return {};
    call.check(!counted || !call.has(4), "nonpad_kv_seqlen does not go with a past");
    std::vector<Tensor> inputs{positions(call, h.queries(), {h.queries(), 1}),
                               positions(call, h.keys(), {1, h.keys()})};
    Dims shape{h.queries(), h.keys()};
    std::string code = "long query = x0, key = x1; T bias = 0;";
    if (masked) {
        inputs.push_back(padded_mask(call, h.keys()));
        const DataType type = inputs.back().dtype;
        call.check(type == DataType::boolean || is_floating_point(type), "attn_mask is ", name_of(type),
                   ", expected boolean or floating point");
        code += type == DataType::boolean ? " bias = x2 != 0 ? (T)0 : (T)-INFINITY;" : " bias = x2;";
        shape = broadcast(shape, inputs.back().shape);
    }
    if (counted) {
        Tensor counts = call.contiguous(6);
        call.check(counts.shape == Dims{h.q.size(0)}, "nonpad_kv_seqlen has shape ", to_string(counts.shape),
                   ", expected [", h.q.size(0), "]");
        inputs.push_back(counts.reshape({h.q.size(0), 1, 1, 1}));
        shape = broadcast(shape, inputs.back().shape);
        const std::string count = detail::concat("x", inputs.size() - 1);
        code += " const long valid = " + count + "; query += valid - w0; if (key >= valid) bias = -INFINITY;";
    } else {
        code += " query += w1;";
    }
    if (causal)
        code += " if (key > query) bias = -INFINITY;";
    if (left >= 0)
        code += " if (query - key > w2) bias = -INFINITY;";
    if (right >= 0)
        code += " if (key - query > w3) bias = -INFINITY;";
    const Tensor bias = call.allocate(shape, h.q.dtype);
    const Scalar numbers[] = {h.queries(), call.has(4) ? call.shape(4)[2] : std::int64_t{0}, left, right};
    const DataType types[] = {DataType::int64, DataType::int64, DataType::int64, DataType::int64};
    pointwise(call.queue(), inputs, std::span(&bias, 1), numbers, code + " y0 = bias;", types);
    return bias;
}

Tensor softmaxed(const Call& call, const Tensor& scores)
{
    const Tensor result = call.allocate(scores.shape, scores.dtype);
    softmax(call.queue(), scores, result, static_cast<int>(scores.dim()) - 1);
    return result;
}

// A query that sees no key attends to nothing, instead of dividing by zero.
void silence_blind_queries(const Call& call, const Tensor& probabilities, const Tensor& bias)
{
    Dims shape = bias.shape;
    shape[bias.dim() - 1] = 1;
    const Tensor best = call.allocate(shape, bias.dtype);
    const Input input(bias);
    reduce(call.queue(), reduce_row("amax"), {std::span(&input, 1), std::span(&best, 1), {}, bias.dtype});
    const Tensor inputs[] = {probabilities, best};
    pointwise(call.queue(), inputs, std::span(&probabilities, 1), {}, "y0 = x1 == -INFINITY ? (T)0 : x0;");
}

// The scores after each stage are an output of type `type` on demand.
Tensor attention_probabilities(Call& call, const Heads& h, const Tensor& bias, DataType type)
{
    const std::int64_t shown = call.wants(3) ? call.integer_attribute("qk_matmul_output_mode", 0) : -1;
    const float cap = call.float_attribute("softcap", 0);
    Tensor scores = call.allocate({h.q.size(0), h.q.size(1), h.queries(), h.keys()}, h.q.dtype);
    multiply_heads(call, h.q, h.k.transpose(2, 3), scores, default_scale(call, h));
    const auto stage = [&](std::int64_t mode) {
        if (shown != mode)
            return;
        call.output(3, Value(converted(call, scores, type)));
        if (scores.dtype != type)
            return;
        const Tensor next = call.allocate(scores.shape, scores.dtype);    // later stages must not write into an output
        copy(call.queue(), scores, next);
        scores = next;
    };
    stage(0);
    if (cap > 0)
        pointwise(call.queue(), std::span(&scores, 1), std::span(&scores, 1), std::array{Scalar(cap)},
                  "y0 = tanh(x0 / w0) * w0;");
    stage(1);
    if (bias.defined()) {
        call.check(broadcast(bias.shape, scores.shape) == scores.shape, "attn_mask does not broadcast to ",
                   to_string(scores.shape));
        const Tensor inputs[] = {scores, bias};
        pointwise(call.queue(), inputs, std::span(&scores, 1), {}, "y0 = x0 + x1;");
    }
    stage(2);
    const Tensor probabilities = softmaxed(call, scores);
    if (bias.defined())
        silence_blind_queries(call, probabilities, bias);
    if (shown == 3)
        call.output(3, Value(converted(call, probabilities, type)));
    return probabilities;
}

// Whether nothing outside asks for the scores, so that they need not be stored.
bool scores_stay_inside(const Call& call, const Heads& h)
{
    return !call.wants(3) && std::max(h.q.size(3), h.v.size(3)) <= longest_fused_head;
}

void fused_attention(const Call& call, const Heads& h, const Tensor& y)
{
    Attention problem{h.q, h.k, h.v, {}};
    problem.scale = default_scale(call, h);
    problem.softcap = std::max(0.0f, call.float_attribute("softcap", 0));
    const bool windowed =
        call.integer_attribute("left_window_size", -1) >= 0 || call.integer_attribute("right_window_size", -1) >= 0;
    const Tensor mask = call.has(3) ? padded_mask(call, h.keys()) : Tensor();
    const bool mask_fits = !mask.defined() || mask.dtype == DataType::boolean || mask.dtype == h.q.dtype;
    if (windowed || call.has(6) || !mask_fits) {
        problem.mask = attention_bias(call, h);
    } else {
        problem.mask = mask;
        problem.causal = call.integer_attribute("is_causal", 0) != 0;
        problem.causal_offset = call.has(4) ? call.shape(4)[2] : 0;
    }
    clprim::attention(call.queue(), problem, y);
}

void attention(Call& call)
{
    const std::size_t dims = call.shape(0).size();
    call.check((dims == 3 || dims == 4) && call.shape(1).size() == dims && call.shape(2).size() == dims,
               "Q, K and V must all have three or four axes");
    const std::int64_t q_heads = call.integer_attribute("q_num_heads", 0),
                       kv_heads = call.integer_attribute("kv_num_heads", 0);
    call.check(call.has(4) == call.has(5), "past_key and past_value go together");
    Heads h{split_heads(call, call.tensor(0), q_heads), split_heads(call, call.tensor(1), kv_heads),
            split_heads(call, call.tensor(2), kv_heads)};
    h.k = with_past(call, h.k, 4, 1);
    h.v = with_past(call, h.v, 5, 2);
    check_heads(call, h);
    const std::int64_t batch = h.q.size(0), heads = h.q.size(1), size = h.v.size(3);
    const DataType type = h.q.dtype, wide = type == DataType::float64 ? type : DataType::float32;
    // Scores of 16 bits would cost digits that the result still has; fused, they are never stored.
    const bool fused = scores_stay_inside(call, h);
    const DataType work = fused && h.v.dtype == type ? type : wide;
    h.q = converted(call, h.q, work);
    h.k = converted(call, h.k, work);
    const Tensor y = dims == 3 ? call.allocate({batch, h.queries(), heads * size}, work)
                               : call.allocate({batch, heads, h.queries(), size}, work);
    if (y.numel() == 0)
        return call.output(0, Value(converted(call, y, type)));
    h.v = converted(call, h.v, work);
    if (fused) {
        fused_attention(call, h, split_heads(call, y, heads));
    } else {
        const Tensor bias = attention_bias(call, h), probabilities = attention_probabilities(call, h, bias, type);
        multiply_heads(call, probabilities, h.v, split_heads(call, y, heads), 1);
    }
    call.output(0, Value(converted(call, y, type)));
}

// Scores and probabilities pass through subgraphs of the model, in float32 at least.
void flex_attention(Call& call)
{
    const Heads h{call.tensor(0), call.tensor(1), call.tensor(2)};
    check_heads(call, h);
    DataType type = h.q.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    if (call.has_attribute("softmax_precision"))
        type = storage_type(static_cast<ElementType>(call.attribute<std::int64_t>("softmax_precision")));
    call.check(is_floating_point(type), "softmax_precision is ", name_of(type), ", expected floating point");
    const auto modified = [&](const char* name, const Tensor& t) {
        if (!call.has_attribute(name))
            return t;
        const Value argument(t);
        const auto results = call.run(*call.attribute<GraphRef>(name), std::span(&argument, 1));
        call.check(results.size() == 1 && results[0].shape() == t.shape, name, " must return one tensor of shape ",
                   to_string(t.shape));
        const Tensor result = converted(call, results[0].device(call.queue()), type);
        if (result.is_contiguous())
            return result;
        const Tensor dense = call.allocate(result.shape, type);
        copy(call.queue(), result, dense);
        return dense;
    };
    const Tensor raw = call.allocate({h.q.size(0), h.q.size(1), h.queries(), h.keys()}, h.q.dtype);
    const Tensor y = call.allocate({h.q.size(0), h.q.size(1), h.queries(), h.v.size(3)}, type);
    multiply_heads(call, h.q, h.k.transpose(2, 3), raw, default_scale(call, h));
    const Tensor scores = modified("score_mod", converted(call, raw, type));
    const Tensor probabilities = modified("prob_mod", softmaxed(call, scores));
    multiply_heads(call, probabilities, converted(call, h.v, type), y, 1);
    call.output(0, Value(converted(call, y, h.v.dtype)));
}

// Rows of a cache [positions, half] for each token: [B, S, 1, half].
Tensor cached_angles(const Call& call, std::size_t cache, const Dims& tokens, std::int64_t half)
{
    const Tensor table = call.contiguous(cache);
    Tensor rows = table;
    if (call.has(3)) {
        call.check(table.dim() == 2 && call.shape(3) == tokens, "a cache ", to_string(table.shape),
                   " and position_ids ", to_string(call.shape(3)), " do not fit ", to_string(tokens));
        rows = call.allocate({tokens.product(), table.size(1)}, table.dtype);
        index_select(call.queue(), table, 0, call.contiguous(3).reshape({tokens.product()}), rows);
    }
    const Dims shape{tokens[0], tokens[1], 1, half};
    call.check(rows.numel() == shape.product() && rows.shape.back() == half, "a cache has shape ",
               to_string(table.shape), ", expected angles for ", to_string(tokens), " and ", half, " pairs");
    return rows.reshape(shape);
}

void rotary_embedding(Call& call)
{
    const Tensor input = call.contiguous(0);
    call.check(input.dim() == 3 || input.dim() == 4, "input 0 has shape ", to_string(input.shape),
               ", expected three or four axes");
    const Tensor y = call.allocate(input.shape, input.dtype);
    const std::int64_t heads = input.dim() == 3 ? call.integer_attribute("num_heads", 0) : input.size(1);
    const auto tokens_first = [&](const Tensor& t) {
        return split_heads(call, t, heads).transpose(1, 2);
    }; // B, S, heads, D
    const Tensor x = tokens_first(input), to = tokens_first(y);
    const std::int64_t given = call.integer_attribute("rotary_embedding_dim", 0), size = given > 0 ? given : x.size(3);
    call.check(size <= x.size(3) && size % 2 == 0, "cannot rotate ", size, " of ", x.size(3), " elements");
    const std::int64_t half = size / 2;
    const bool interleaved = call.integer_attribute("interleaved", 0) != 0;
    const auto pairs = [&](const Tensor& t, std::int64_t which) {
        if (!interleaved)
            return t.slice(3, which * half, (which + 1) * half);
        Tensor result = t.slice(3, which, which + 1);
        result.shape[3] = half;
        result.strides[3] = 2 * t.stride(3);
        return result;
    };
    call.output(0, Value(y));
    if (y.numel() == 0)
        return;
    const Dims tokens{x.size(0), x.size(1)};
    const Tensor inputs[] = {pairs(x, 0), pairs(x, 1), cached_angles(call, 1, tokens, half),
                             cached_angles(call, 2, tokens, half)};
    const Tensor outputs[] = {pairs(to, 0), pairs(to, 1)};
    pointwise(call.queue(), inputs, outputs, {}, "y0 = x2 * x0 - x3 * x1; y1 = x3 * x0 + x2 * x1;");
    if (size < x.size(3))
        copy(call.queue(), x.slice(3, size, x.size(3)), to.slice(3, size, x.size(3)));
}

const OperatorRow attention_rows[] = {
    {"Attention", 23, attention},
    {"LinearAttention", 27, linear_attention_operator},
    {"LinearAttention", 1, linear_attention_operator, nullptr, "com.microsoft"},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"FlexAttention", 1, flex_attention, nullptr, "ai.onnx.preview"},
};

}  // namespace

std::span<const OperatorRow> attention_operators() { return attention_rows; }

}  // namespace clprim::onnx
