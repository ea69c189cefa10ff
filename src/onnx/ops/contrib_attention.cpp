// com.microsoft's attention operators: Attention, MultiHeadAttention, DecoderMaskedMultiHeadAttention,
// GroupQueryAttention, with their caches, masks and biases; rotary embedding.
#include <cmath>
#include <optional>

#include <clprim/attention.hpp>
#include <clprim/concat.hpp>
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/softmax.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Heads are views [B, H, S, D] wherever their memory lies.
struct Scores {
    Tensor query, key, value;                // query heads share key heads in order
    Tensor bias;                             // added; broadcasts to [B, H, L, S]; may be undefined
    bool causal = false;
    std::int64_t offset = 0;                 // of the first query among the keys
    double scale = 1, softcap = 0;
    Tensor sink;                             // a further score of each head [H], whose key has no value
};

Tensor heads_of(const Call& call, const Tensor& x, std::int64_t heads)
{
    call.check(x.dim() == 3 && heads > 0 && x.size(2) % heads == 0, "shape ", to_string(x.shape),
               " cannot be split into ", heads, " heads");
    const std::int64_t size = x.size(2) / heads;
    return {x.memory, x.offset, x.dtype, {x.size(0), heads, x.size(1), size},
            {x.stride(0), size * x.stride(2), x.stride(1), x.stride(2)}};
}

std::int64_t head_count(const Call& call, const char* name)
{
    const auto heads = call.attribute<std::int64_t>(name);
    call.check(heads > 0 && heads < (1 << 20), name, " is ", heads);
    return heads;
}

double scale_of(const Call& call, std::int64_t head_size)
{
    const float given = call.float_attribute("scale", 0);
    return given != 0 ? given : 1 / std::sqrt(static_cast<double>(head_size));
}

void check_fit(const Call& call, const Scores& p)
{
    for (const Tensor* t : {&p.query, &p.key, &p.value})
        call.check(t->dim() == 4 && t->dtype == p.query.dtype && is_floating_point(t->dtype) &&
                       t->size(0) == p.query.size(0),
                   "query, key and value must be floating point, of one type and batch");
    call.check(p.key.size(3) == p.query.size(3) && p.value.size(1) == p.key.size(1) && p.value.size(2) == p.key.size(2) &&
                   p.key.size(1) > 0 && p.query.size(1) % p.key.size(1) == 0,
               "query ", to_string(p.query.shape), ", key ", to_string(p.key.shape), " and value ",
               to_string(p.value.shape), " do not fit");
    const Dims scores{p.query.size(0), p.query.size(1), p.query.size(2), p.key.size(2)};
    call.check(!p.bias.defined() || broadcast(p.bias.shape, scores) == scores, "a bias or mask of shape ",
               to_string(p.bias.shape), " does not broadcast to scores ", to_string(scores));
}

// Scores are stored: where something happens to them that the fused kernels do not know.
void attend_in_steps(const Call& call, Scores p, const Tensor& y)
{
    const DataType type = p.query.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    for (Tensor* t : {&p.query, &p.key, &p.value})
        *t = converted(call, *t, type);
    const std::int64_t batch = p.query.size(0), heads = p.query.size(1), queries = p.query.size(2), keys = p.key.size(2);
    const std::int64_t sinks = p.sink.defined() ? 1 : 0, groups = p.key.size(1);
    const Tensor all = call.allocate({batch, heads, queries, keys + sinks}, type), scores = all.slice(3, 0, keys);
    const Tensor raw = call.allocate({batch, heads, queries, keys}, type);
    batched_product(call.queue(), grouped(p.query, groups), grouped(p.key.transpose(2, 3), groups), grouped(raw, groups),
                    p.scale);
    std::vector<Tensor> inputs{raw};
    std::string code = "T s = x0;";
    if (p.softcap > 0)
        code += " s = tanh(s / w0) * w0;";
    if (p.bias.defined()) {
        inputs.push_back(p.bias);
        code += " s += x1;";
    }
    if (p.causal) {
        const Tensor rows = Compose(call)("Range", {Value::scalar(p.offset), Value::scalar(p.offset + queries),
                                                    Value::scalar(std::int64_t{1})}).device(call.queue());
        const Tensor columns = Compose(call)("Range", {Value::scalar(std::int64_t{0}), Value::scalar(keys),
                                                       Value::scalar(std::int64_t{1})}).device(call.queue());
        code += detail::concat(" if (x", inputs.size() + 1, " > x", inputs.size(), ") s = -INFINITY;");
        inputs.push_back(rows.reshape({queries, 1}));
        inputs.push_back(columns);
    }
    pointwise(call.queue(), inputs, std::span(&scores, 1), std::array{Scalar(p.softcap)}, code + " y0 = s;");
    if (p.sink.defined())
        copy(call.queue(), p.sink.reshape({1, heads, 1, 1}).expand({batch, heads, queries, 1}), all.slice(3, keys, keys + 1));
    const Tensor probabilities = call.allocate(all.shape, type);
    softmax(call.queue(), all, probabilities, 3);
    const Tensor result = y.dtype == type ? y : call.allocate(y.shape, type);
    batched_product(call.queue(), grouped(probabilities.slice(3, 0, keys), groups), grouped(p.value, groups),
                    grouped(result, groups));
    if (y.dtype != type)
        copy(call.queue(), result, y);
}

// y [B, H, L, Dv], any strides.
void attend(const Call& call, const Scores& p, const Tensor& y)
{
    check_fit(call, p);
    if (y.numel() == 0)
        return;
    if (p.softcap > 0 || p.sink.defined() || std::max(p.query.size(3), p.value.size(3)) > longest_fused_head ||
        p.key.size(2) == 0)
        return attend_in_steps(call, p, y);
    Attention problem{p.query, p.key, p.value, p.bias.defined() ? converted(call, p.bias, p.query.dtype) : Tensor()};
    problem.scale = p.scale;
    problem.causal = p.causal;
    problem.causal_offset = p.offset;
    attention(call.queue(), problem, y);
}

// Attends into output 0, [B, L, H Dv].
void attend_to_output(Call& call, const Scores& p)
{
    const std::int64_t heads = p.query.size(1);
    const Tensor y = call.allocate({p.query.size(0), p.query.size(2), heads * p.value.size(3)}, p.query.dtype);
    attend(call, p, heads_of(call, y, heads));
    call.output(0, Value(y));
}

// ---- masks -----------------------------------------------------------------------------------------------------------

Tensor positions(const Call& call, std::int64_t count)
{
    return Compose(call)("Range", {Value::scalar(std::int64_t{0}), Value::scalar(count), Value::scalar(std::int64_t{1})})
        .device(call.queue());
}

struct Extent {
    std::int64_t batch, queries, keys;
};

// What hides keys: `mask_filter_value` where the mask says so, 0 elsewhere. Masks are how many keys of each sample
// count [B], or where they end and begin [2 B], or 1 for keys that count: [B, S], [B, L, S], [B, 1, M, M].
Tensor mask_bias(const Call& call, std::size_t i, const Extent& e, DataType type)
{
    if (i == none || !call.has(i))
        return {};
    const Tensor mask = call.contiguous(i);
    const Scalar hidden = call.float_attribute("mask_filter_value", -10000);
    std::vector<Tensor> inputs;
    Dims shape{e.batch, 1, 1, e.keys};
    std::string code = "y0 = x0 != 0 ? 0 : w0;";
    if (mask.dim() == 1) {
        const std::int64_t parts = e.batch ? mask.size(0) / e.batch : 0;
        call.check((parts == 1 || parts == 2) && parts * e.batch == mask.size(0), "a mask of shape ",
                   to_string(mask.shape), " does not say ends, or ends and beginnings, of ", e.batch, " samples");
        inputs = {mask.slice(0, 0, e.batch).reshape({e.batch, 1, 1, 1}),
                  mask.slice(0, mask.size(0) - e.batch, mask.size(0)).reshape({e.batch, 1, 1, 1}),
                  positions(call, e.keys)};
        code = parts == 1 ? "y0 = x2 < x0 ? 0 : w0;" : "y0 = x2 < x0 && x2 >= x1 ? 0 : w0;";
    } else if (mask.dim() == 2 && mask.shape == Dims{e.batch, e.keys}) {
        inputs = {mask.reshape(shape)};
    } else if (mask.dim() == 3 && mask.shape == Dims{e.batch, e.queries, e.keys}) {
        shape[2] = e.queries;
        inputs = {mask.reshape(shape)};
    } else {
        call.check(mask.dim() == 4 && mask.size(0) == e.batch && mask.size(1) == 1 && mask.size(2) >= e.keys &&
                       mask.size(3) >= e.keys && e.keys >= e.queries,
                   "a mask of shape ", to_string(mask.shape), " does not fit batch ", e.batch, ", ", e.queries,
                   " queries and ", e.keys, " keys");
        shape[2] = e.queries;
        inputs = {mask.slice(2, e.keys - e.queries, e.keys).slice(3, 0, e.keys)};
    }
    const Tensor bias = call.allocate(shape, type);
    pointwise(call.queue(), inputs, std::span(&bias, 1), std::span(&hidden, 1), code);
    return bias;
}

Tensor sum_of(const Call& call, const Tensor& a, const Tensor& b)
{
    if (!a.defined() || !b.defined())
        return a.defined() ? a : b;
    const Tensor inputs[] = {a, b}, sum = call.allocate(broadcast(a.shape, b.shape), a.dtype);
    pointwise(call.queue(), inputs, std::span(&sum, 1), {}, "y0 = x0 + x1;");
    return sum;
}

Tensor optional_input(const Call& call, std::size_t i) { return i == none ? Tensor() : call.tensor_or_none(i); }

// ---- caches ----------------------------------------------------------------------------------------------------------

// `fresh` [B, H, S, D] behind what `past` holds: all of it, or its first `length` of a longer buffer, whose size is kept.
struct Cache {
    Tensor whole;                            // what is handed on
    Tensor used;                             // keys that count
};
Cache appended(const Call& call, const Tensor& past, const Tensor& fresh, std::optional<std::int64_t> length)
{
    if (!past.defined())
        return {fresh, fresh};
    call.check(past.dim() == 4 && past.dtype == fresh.dtype && past.size(0) == fresh.size(0) &&
                   past.size(1) == fresh.size(1) && past.size(3) == fresh.size(3),
               "a past of ", name_of(past.dtype), " ", to_string(past.shape), " does not fit keys or values ",
               name_of(fresh.dtype), " ", to_string(fresh.shape));
    const std::int64_t begin = length.value_or(past.size(2)), end = begin + fresh.size(2);
    call.check(begin >= 0 && begin <= past.size(2), "a past of ", begin, " in a buffer of ", past.size(2));
    Dims shape = past.shape;
    shape[2] = length ? std::max(end, past.size(2)) : end;
    const Tensor whole = call.allocate(shape, past.dtype);
    copy(call.queue(), past, whole.slice(2, 0, past.size(2)));
    copy(call.queue(), fresh, whole.slice(2, begin, end));
    return {whole, whole.slice(2, 0, end)};
}

// The part of a cache with keys and values [2, B, H, P, D].
Tensor half_of(const Tensor& past, std::int64_t which)
{
    Tensor result = past.slice(0, which, which + 1);
    result.shape = {past.size(1), past.size(2), past.size(3), past.size(4)};
    result.strides = {past.stride(1), past.stride(2), past.stride(3), past.stride(4)};
    return result;
}

}  // namespace

void projected_attention(Call& call, const Value& projected, const AttentionInputs& at)
{
    call.check(call.integer_attribute("do_rotary", 0) == 0, "do_rotary is not supported");
    const std::int64_t heads = head_count(call, "num_heads");
    const Tensor x = projected.device(call.queue());
    call.check(x.dim() == 3, "the input has three axes, got ", to_string(x.shape));
    auto sizes = call.ints_attribute("qkv_hidden_sizes");
    if (sizes.empty())
        sizes.assign(3, x.size(2) / 3);
    call.check(sizes.size() == 3 && sizes[0] > 0 && sizes[0] < (1 << 30) && sizes[1] == sizes[0] && sizes[2] > 0 &&
                   sizes[2] < (1 << 30) && sizes[0] + sizes[1] + sizes[2] == x.size(2),
               "a projection of ", x.size(2), " is not query, key and value of ", to_string(Dims(sizes)));
    Scores p;
    p.query = heads_of(call, x.slice(2, 0, sizes[0]), heads);
    p.key = heads_of(call, x.slice(2, sizes[0], 2 * sizes[0]), heads);
    p.value = heads_of(call, x.slice(2, 2 * sizes[0], x.size(2)), heads);
    const Tensor past = optional_input(call, at.past);
    if (past.defined() || call.wants(1)) {
        call.check(p.key.size(3) == p.value.size(3), "with a cache keys and values have one size");
        call.check(!past.defined() || (past.dim() == 5 && past.size(0) == 2), "past has shape ", to_string(past.shape),
                   ", expected [2, batch, heads, length, size]");
        std::optional<std::int64_t> length;
        if (at.past_length != none && call.has(at.past_length) && call.integer_attribute("past_present_share_buffer", 0))
            length = call.integer(at.past_length);
        const Cache keys = appended(call, past.defined() ? half_of(past, 0) : Tensor(), p.key, length);
        const Cache values = appended(call, past.defined() ? half_of(past, 1) : Tensor(), p.value, length);
        p.offset = keys.used.size(2) - p.query.size(2);
        p.key = keys.used;
        p.value = values.used;
        if (call.wants(1)) {
            const Dims& shape = keys.whole.shape;
            const Tensor present = call.allocate({2, shape[0], shape[1], shape[2], shape[3]}, x.dtype);
            copy(call.queue(), keys.whole, half_of(present, 0));
            copy(call.queue(), values.whole, half_of(present, 1));
            call.output(1, Value(present));
        }
    }
    p.causal = call.integer_attribute("unidirectional", 0) != 0;
    p.scale = scale_of(call, p.query.size(3));
    p.bias = sum_of(call, mask_bias(call, at.mask, {x.size(0), x.size(1), p.key.size(2)}, x.dtype),
                    optional_input(call, at.bias));
    attend_to_output(call, p);
}

namespace {

void attention_operator(Call& call)
{
    const Compose op(call);
    Value x = op("MatMul", {call.input(0), call.input(1)});
    if (call.has(2))
        x = op("Add", {x, call.input(2)});
    projected_attention(call, x, {.mask = 3, .past = 4, .bias = 5, .past_length = 6});
}

// Part `which` of heads packed as [B, S, H, parts, D].
Tensor packed_part(const Tensor& x, std::int64_t which)
{
    return {x.memory, x.offset + which * x.stride(3), x.dtype, {x.size(0), x.size(2), x.size(1), x.size(4)},
            {x.stride(0), x.stride(2), x.stride(1), x.stride(4)}};
}

// heads [B, H, S, D] + bias [H D].
Tensor biased(const Call& call, const Tensor& heads, const Tensor& bias)
{
    if (!bias.defined())
        return heads;
    const Tensor y = call.allocate({heads.size(0), heads.size(2), heads.size(1), heads.size(3)}, heads.dtype).transpose(1, 2);
    const Tensor inputs[] = {heads, bias.reshape({1, heads.size(1), 1, heads.size(3)})};
    pointwise(call.queue(), inputs, std::span(&y, 1), {}, "y0 = x0 + x1;");
    return y;
}

// Query, key and value of MultiHeadAttention in any of their forms, with their bias.
Scores multi_head_inputs(const Call& call, std::size_t bias_input)
{
    const std::int64_t heads = head_count(call, "num_heads");
    Scores p;
    bool cached_keys = false;                // of a cross attention: [B, H, S, D], without a bias
    const Tensor query = call.tensor(0), key = call.tensor_or_none(1), value = call.tensor_or_none(2);
    if (query.dim() == 5) {
        call.check(query.size(3) == 3 && query.size(2) == heads && !key.defined(), "a packed query has shape ",
                   to_string(query.shape), ", expected [batch, length, ", heads, ", 3, size], and no key");
        p.query = packed_part(query, 0);
        p.key = packed_part(query, 1);
        p.value = packed_part(query, 2);
    } else {
        p.query = heads_of(call, query, heads);
        call.check(key.defined(), "key is missing");
        if (key.dim() == 5) {
            call.check(key.size(3) == 2 && key.size(2) == heads && !value.defined(), "a packed key has shape ",
                       to_string(key.shape), ", expected [batch, length, ", heads, ", 2, size], and no value");
            p.key = packed_part(key, 0);
            p.value = packed_part(key, 1);
        } else {
            call.check(value.defined() && value.dim() == key.dim(), "key and value must have the same number of axes");
            cached_keys = key.dim() == 4;
            p.key = cached_keys ? key : heads_of(call, key, heads);
            p.value = cached_keys ? value : heads_of(call, value, heads);
        }
    }
    if (const Tensor bias = optional_input(call, bias_input); bias.defined()) {
        const std::int64_t q = heads * p.query.size(3), v = heads * p.value.size(3);
        const Tensor dense = call.contiguous(bias_input);
        call.check(dense.shape == Dims{2 * q + v}, "the bias has shape ", to_string(dense.shape), ", expected [", 2 * q + v,
                   "]");
        p.query = biased(call, p.query, dense.slice(0, 0, q));
        if (!cached_keys) {
            p.key = biased(call, p.key, dense.slice(0, q, 2 * q));
            p.value = biased(call, p.value, dense.slice(0, 2 * q, 2 * q + v));
        }
    }
    p.scale = scale_of(call, p.query.size(3));
    return p;
}

void hand_on(Call& call, const Cache& keys, const Cache& values)
{
    if (call.wants(1))
        call.output(1, Value(keys.whole));
    if (call.wants(2))
        call.output(2, Value(values.whole));
}

void multi_head_attention(Call& call)
{
    call.check(!call.wants(3), "the output qk is not supported");
    call.check(!call.has(9), "cache_indirection is not supported");
    Scores p = multi_head_inputs(call, 3);
    std::optional<std::int64_t> length;
    if (call.has(8))
        length = call.integer(8);
    const Cache keys = appended(call, call.tensor_or_none(6), p.key, length);
    const Cache values = appended(call, call.tensor_or_none(7), p.value, length);
    hand_on(call, keys, values);
    if (call.has(6))
        p.offset = keys.used.size(2) - p.key.size(2);
    p.key = keys.used;
    p.value = values.used;
    p.causal = call.integer_attribute("unidirectional", 0) != 0;
    p.bias = sum_of(call, mask_bias(call, 4, {p.query.size(0), p.query.size(2), p.key.size(2)}, p.query.dtype),
                    call.tensor_or_none(5));
    attend_to_output(call, p);
}

// Keys of the past where a beam search has mixed its beams: sample b's beam i takes position j from beam from[b, i, j].
Tensor of_beams(const Call& call, const Tensor& cache, std::int64_t length)
{
    const Tensor from = call.contiguous(9);
    call.check(from.dim() == 3 && from.size(0) * from.size(1) == cache.size(0) && from.size(2) >= length,
               "cache_indirection ", to_string(from.shape), " does not fit a cache ", to_string(cache.shape), " and a past of ",
               length);
    const std::int64_t batch = from.size(0), beams = from.size(1), heads = cache.size(1), size = cache.size(3);
    const auto split = [&](const Tensor& t) {
        return Tensor(t.memory, t.offset, t.dtype, {batch, beams, heads, t.size(2), size},
                      {beams * t.stride(0), t.stride(0), t.stride(1), t.stride(2), t.stride(3)});
    };
    const Tensor index = converted(call, from.slice(2, 0, length), DataType::int64);
    const Tensor wide{index.memory, index.offset, index.dtype, {batch, beams, heads, length, size},
                      {index.stride(0), index.stride(1), 0, index.stride(2), 0}};
    const Tensor mixed = call.allocate({cache.size(0), heads, length, size}, cache.dtype);
    if (mixed.numel())
        gather(call.queue(), split(cache.slice(2, 0, length)), 1, wide, split(mixed));
    return mixed;
}

void decoder_masked_attention(Call& call)
{
    call.check(!call.wants(3), "the output qk is not supported");
    Scores p = multi_head_inputs(call, 10);
    if (call.shape(1).size() == 4) {         // cross attention: the keys are all there
        hand_on(call, {p.key, p.key}, {p.value, p.value});
    } else {
        std::optional<std::int64_t> length;
        if (call.has(7) && call.integer_attribute("past_present_share_buffer", 0))
            length = call.integer(7);
        const Tensor fresh_key = p.key, fresh_value = p.value;
        const Cache keys = appended(call, call.tensor_or_none(5), fresh_key, length);
        const Cache values = appended(call, call.tensor_or_none(6), fresh_value, length);
        hand_on(call, keys, values);
        p.key = keys.used;
        p.value = values.used;
        if (call.has(9) && call.has(5)) {
            const std::int64_t past = keys.used.size(2) - fresh_key.size(2);
            p.key = appended(call, of_beams(call, keys.used, past), fresh_key, {}).used;
            p.value = appended(call, of_beams(call, values.used, past), fresh_value, {}).used;
        }
    }
    p.bias = sum_of(call, mask_bias(call, 3, {p.query.size(0), p.query.size(2), p.key.size(2)}, p.query.dtype),
                    call.tensor_or_none(4));
    attend_to_output(call, p);
}

// ---- grouped queries -------------------------------------------------------------------------------------------------

Tensor rotated(const Call& call, const Tensor& heads, const Value& at, std::size_t cosines)
{
    const Compose op(call);
    call.check(call.has(cosines) && call.has(cosines + 1) && call.shape(cosines).size() == 2,
               "cos_cache and sin_cache [positions, pairs] are needed");
    const std::int64_t size = 2 * call.shape(cosines)[1];
    return op("RotaryEmbedding", {Value(heads), call.input(cosines), call.input(cosines + 1), at},
              {{"interleaved", call.integer_attribute("rotary_interleaved", 0)},
               {"rotary_embedding_dim", size == heads.size(3) ? std::int64_t{0} : size}}).device(call.queue());
}

// What GroupQueryAttention's samples have: `past` keys in the cache before the new ones, `total` with them.
struct Lengths {
    std::vector<std::int64_t> past, total;
    std::int64_t longest = 0, queries = 0;
};

Lengths lengths_of(const Call& call, std::int64_t batch, std::int64_t queries)
{
    Lengths result;
    result.longest = call.integer(6);
    result.queries = queries;
    const auto last = call.ints(5);          // of each sample, total length - 1
    call.check(static_cast<std::int64_t>(last.size()) == batch, "seqlens_k has ", last.size(), " elements, expected ", batch);
    call.check(result.longest >= queries && result.longest < (std::int64_t{1} << 31), "total_sequence_length is ",
               result.longest, " with ", queries, " new tokens");
    const bool prompt = result.longest == queries;
    for (const std::int64_t l : last) {
        call.check(l >= 0 && l < result.longest, "seqlens_k has ", l, ", expected less than ", result.longest);
        result.total.push_back(l + 1);
        result.past.push_back(prompt ? 0 : std::max<std::int64_t>(0, l + 1 - queries));
    }
    return result;
}

// Keys or values in a cache that is as long as the longest sample needs.
Tensor cached(const Call& call, std::size_t past_input, const Tensor& fresh, const Lengths& lengths)
{
    const Tensor past = call.tensor_or_none(past_input);
    call.check(!past.defined() || (past.dim() == 4 && past.dtype == fresh.dtype && past.size(0) == fresh.size(0) &&
                                   past.size(1) == fresh.size(1) && past.size(3) == fresh.size(3)),
               "a past of shape ", to_string(past.shape), " does not fit keys or values ", to_string(fresh.shape));
    const std::int64_t held = past.defined() ? past.size(2) : 0, batch = fresh.size(0);
    const Tensor whole = call.allocate({batch, fresh.size(1), std::max(held, lengths.longest), fresh.size(3)}, fresh.dtype);
    if (held < whole.size(2))
        fill(call.queue(), whole.slice(2, held, whole.size(2)), 0);
    if (held)
        copy(call.queue(), past, whole.slice(2, 0, held));
    const bool alike = std::ranges::count(lengths.past, lengths.past[0]) == batch;
    for (std::int64_t b = 0; b < (alike ? std::min<std::int64_t>(1, batch) : batch); ++b) {
        const std::int64_t begin = lengths.past[static_cast<std::size_t>(b)];
        const auto rows = [&](const Tensor& t) { return alike ? t : t.slice(0, b, b + 1); };
        copy(call.queue(), rows(fresh), rows(whole).slice(2, begin, begin + lengths.queries));
    }
    return whole;
}

// 0 where a query may see a key, -inf where not: [B, 1, L, T].
Tensor visibility(const Call& call, const Lengths& lengths, std::int64_t window, bool causal, DataType type)
{
    const auto batch = static_cast<std::int64_t>(lengths.past.size());
    const auto column = [&](const std::vector<std::int64_t>& numbers) {
        return Value::ints(numbers).device(call.queue()).reshape({batch, 1, 1, 1});
    };
    const Tensor inputs[] = {column(lengths.past), column(lengths.total),
                             positions(call, lengths.queries).reshape({lengths.queries, 1}),
                             positions(call, lengths.longest)};
    const Tensor bias = call.allocate({batch, 1, lengths.queries, lengths.longest}, type);
    const Scalar numbers[] = {window, std::int64_t{causal}};
    const DataType types[] = {DataType::int64, DataType::int64};
    // Rows behind a sample's end see what is there, so that they stay finite.
    pointwise(call.queue(), inputs, std::span(&bias, 1), numbers,
              "long at = x0 + x2; bool seen = (w1 ? x3 <= at : x3 < x1) && (w0 < 0 || x3 > at - w0);"
              "y0 = seen ? (T)0 : (T)-INFINITY;", types);
    return bias;
}

Value token_positions(const Call& call, const Lengths& lengths)
{
    const auto batch = static_cast<std::int64_t>(lengths.past.size());
    if (call.has(9))
        return Compose(call).cast(call.input(9), ElementType::int64).reshaped({batch, lengths.queries}, call.queue());
    std::vector<std::int64_t> at;
    for (const std::int64_t past : lengths.past)
        for (std::int64_t i = 0; i < lengths.queries; ++i)
            at.push_back(past + i);
    return Value::ints(at).reshaped({batch, lengths.queries}, call.queue());
}

Tensor head_norm(const Call& call, const Tensor& heads, std::size_t weight)
{
    if (!call.has(weight))
        return heads;
    return Compose(call)("RMSNormalization", {Value(heads), call.input(weight)},
                         {{"axis", std::int64_t{-1}}, {"epsilon", call.float_attribute("qk_norm_epsilon", 1e-6F)}})
        .device(call.queue());
}

void group_query_attention(Call& call)
{
    for (const std::size_t i : {12u, 13u})
        call.check(!call.has(i), "caches of integers are not supported");
    call.check(!call.wants(3), "the output output_qk is not supported");
    const std::int64_t heads = head_count(call, "num_heads"), kv_heads = head_count(call, "kv_num_heads");
    const Tensor x = call.tensor(0);
    call.check(x.dim() == 3, "query has shape ", to_string(x.shape), ", expected three axes");
    Scores p;
    if (call.has(1)) {
        p.query = heads_of(call, x, heads);
        p.key = heads_of(call, call.tensor(1), kv_heads);
        p.value = heads_of(call, call.tensor(2), kv_heads);
    } else {                                 // packed: query, key and value side by side
        call.check(x.size(2) % (heads + 2 * kv_heads) == 0, "a packed query of ", x.size(2), " is not ", heads, " + 2 * ",
                   kv_heads, " heads");
        const std::int64_t size = x.size(2) / (heads + 2 * kv_heads), q = heads * size, kv = kv_heads * size;
        p.query = heads_of(call, x.slice(2, 0, q), heads);
        p.key = heads_of(call, x.slice(2, q, q + kv), kv_heads);
        p.value = heads_of(call, x.slice(2, q + kv, q + 2 * kv), kv_heads);
    }
    call.check(p.key.size(2) == p.query.size(2), "there are ", p.query.size(2), " queries and ", p.key.size(2), " keys");
    const Lengths lengths = lengths_of(call, x.size(0), x.size(1));
    p.query = head_norm(call, p.query, 14);
    p.key = head_norm(call, p.key, 15);
    if (call.integer_attribute("do_rotary", 0)) {
        const Value at = token_positions(call, lengths);
        p.query = rotated(call, p.query, at, 7);
        p.key = rotated(call, p.key, at, 7);
    }
    const Tensor keys = cached(call, 3, p.key, lengths), values = cached(call, 4, p.value, lengths);
    hand_on(call, {keys, keys}, {values, values});
    p.key = keys.slice(2, 0, lengths.longest);
    p.value = values.slice(2, 0, lengths.longest);
    p.scale = scale_of(call, p.query.size(3));
    p.softcap = call.float_attribute("softcap", 0);
    const bool causal = call.integer_attribute("causal", 1) != 0;
    const std::int64_t window = call.integer_attribute("local_window_size", -1);
    if (x.size(0) == 1 && causal && window < 0) {
        p.causal = true;
        p.offset = lengths.past[0];
    } else {
        p.bias = visibility(call, lengths, window, causal, x.dtype);
    }
    p.bias = sum_of(call, p.bias, call.tensor_or_none(10));
    if (call.has(11))
        p.sink = call.contiguous(11);
    else if (call.integer_attribute("smooth_softmax", 0) == 1) {
        p.sink = call.allocate({heads}, DataType::float32);
        fill(call.queue(), p.sink, 0);
    }
    attend_to_output(call, p);
}

// ---- rotary embedding ------------------------------------------------------------------------------------------------

// Positions are given for each token, or for the first one.
void rotary_embedding(Call& call)
{
    const Compose op(call);
    const Dims& shape = call.shape(0);
    call.check(shape.size() == 3 || shape.size() == 4, "input 0 has shape ", to_string(shape),
               ", expected three or four axes");
    call.check(call.shape(2).size() == 2, "cos_cache has shape ", to_string(call.shape(2)), ", expected two axes");
    const std::int64_t length = shape[shape.size() - 2], size = 2 * call.shape(2)[1];
    std::int64_t heads = call.integer_attribute("num_heads", 0);
    if (shape.size() == 3 && heads == 0) {
        call.check(size > 0 && shape[2] % size == 0, "a hidden size of ", shape[2], " is not made of heads of ", size);
        heads = shape[2] / size;
    }
    Value at = op.cast(call.input(1), ElementType::int64);
    if (at.numel() == 1 && at.shape() != Dims{shape[0], length}) {
        const std::int64_t first = at.to_ints(call.queue())[0];
        at = op("Expand", {op("Range", {Value::scalar(first), Value::scalar(first + length), Value::scalar(std::int64_t{1})}),
                           Value::ints(std::array{shape[0], length})});
    }
    Attributes attributes{{"interleaved", call.integer_attribute("interleaved", 0)},
                          {"rotary_embedding_dim", call.integer_attribute("rotary_embedding_dim", 0)}};
    if (shape.size() == 3)
        attributes["num_heads"] = heads;
    call.output(0, op("RotaryEmbedding", {call.input(0), call.input(2), call.input(3), at}, std::move(attributes)));
}

constexpr const char* domain = "com.microsoft";
const OperatorRow rows[] = {
    {"Attention", 1, attention_operator, nullptr, domain},
    {"MultiHeadAttention", 1, multi_head_attention, nullptr, domain},
    {"DecoderMaskedMultiHeadAttention", 1, decoder_masked_attention, nullptr, domain},
    {"GroupQueryAttention", 1, group_query_attention, nullptr, domain},
    {"RotaryEmbedding", 1, rotary_embedding, nullptr, domain},
};

}  // namespace

std::span<const OperatorRow> contrib_attention_operators() { return rows; }

}  // namespace clprim::onnx
