// com.microsoft's attention operators but for grouped queries: Attention, MultiHeadAttention,
// DecoderMaskedMultiHeadAttention.
#include <algorithm>
#include <cmath>
#include <optional>

#include <clprim/concat.hpp>
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib_scores.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

void projected_attention(Call& call, const Value& projected, const AttentionInputs& at)
{
    call.check(call.integer_attribute("do_rotary", 0) == 0, "do_rotary is not supported");
    const Tensor x = projected.device(call.queue());
    call.check(x.dim() == 3, "the input has three axes, got ", to_string(x.shape));
    Scores p = split_projection(call, x);
    const Tensor past = optional_input(call, at.past);
    if (past.defined() || call.wants(1)) {
        call.check(p.key.size(3) == p.value.size(3), "with a cache keys and values have one size");
        call.check(!past.defined() || (past.dim() == 5 && past.size(0) == 2), "past has shape ", to_string(past.shape),
                   ", expected [2, batch, heads, length, size]");
        std::optional<std::int64_t> length;
        if (at.past_length != none && call.has(at.past_length) &&
            call.integer_attribute("past_present_share_buffer", 0))
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
    const Tensor y =
        call.allocate({heads.size(0), heads.size(2), heads.size(1), heads.size(3)}, heads.dtype).transpose(1, 2);
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
        call.check(dense.shape == Dims{2 * q + v}, "the bias has shape ", to_string(dense.shape), ", expected [",
                   2 * q + v, "]");
        p.query = biased(call, p.query, dense.slice(0, 0, q));
        if (!cached_keys) {
            p.key = biased(call, p.key, dense.slice(0, q, 2 * q));
            p.value = biased(call, p.value, dense.slice(0, 2 * q, 2 * q + v));
        }
    }
    p.scale = scale_of(call, p.query.size(3));
    return p;
}

void multi_head_attention(Call& call)
{
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
    show_scores(call, p);
    attend_to_output(call, p);
}

// Keys of the past where a beam search has mixed its beams: sample b's beam i takes position j from beam from[b, i, j].
Tensor of_beams(const Call& call, const Tensor& cache, std::int64_t length)
{
    const Tensor from = call.contiguous(9);
    call.check(from.dim() == 3 && from.size(0) * from.size(1) == cache.size(0) && from.size(2) >= length,
               "cache_indirection ", to_string(from.shape), " does not fit a cache ", to_string(cache.shape),
               " and a past of ", length);
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
    call.check(!call.wants(3) || call.integer_attribute("output_qk", 0), "the output qk is wanted, and output_qk is 0");
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
    show_scores(call, p);
    attend_to_output(call, p);
}

const OperatorRow contrib_attention_rows[] = {
    {"Attention", 1, attention_operator, nullptr, microsoft},
    {"MultiHeadAttention", 1, multi_head_attention, nullptr, microsoft},
    {"DecoderMaskedMultiHeadAttention", 1, decoder_masked_attention, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_attention_operators() { return contrib_attention_rows; }

}  // namespace clprim::onnx
