// com.microsoft's operators for batches without padding: tokens of all samples, one after the other.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib_scores.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Where tokens lie among all places of a batch: token_offset [batch, length] has the places of tokens, then of padding.
struct Packing {
    Value places;                             // [tokens]
    std::int64_t batch = 0, length = 0, tokens = 0;
};

Packing packing_of(const Call& call, std::size_t offsets, std::int64_t tokens)
{
    const Dims& shape = call.shape(offsets);
    call.check(shape.size() == 2, "token_offset has shape ", to_string(shape), ", expected [batch, length]");
    call.check(tokens <= shape.product(), "there are ", tokens, " tokens for ", to_string(shape), " places");
    const Tensor all = call.contiguous(offsets).reshape({shape.product()});
    return {Value(converted(call, all.slice(0, 0, tokens), DataType::int64)), shape[0], shape[1], tokens};
}

// Rows [tokens, n] at their places [batch, length, n]; padding is zero.
Value padded(const Call& call, const Value& rows, const Packing& packing)
{
    const Compose op(call);
    const std::int64_t width = rows.shape().back();
    const Value whole(call.allocate({packing.batch * packing.length, width}, storage_type(rows.type())), rows.type());
    fill(call.queue(), whole.device(call.queue()), 0);
    const Value at = packing.places.reshaped({packing.tokens, 1}, call.queue());
    return op("ScatterND", {whole, at, rows}).reshaped({packing.batch, packing.length, width}, call.queue());
}

// The opposite.
Value unpadded(const Call& call, const Value& x, const Packing& packing)
{
    const Value rows = x.reshaped({packing.batch * packing.length, x.shape().back()}, call.queue());
    return Compose(call)("Gather", {rows, packing.places}, {{"axis", std::int64_t{0}}});
}

void remove_padding(Call& call)
{
    const Dims shape = call.shape(0);
    const auto counts = call.ints(1);
    call.check(shape.size() == 3 && static_cast<std::int64_t>(counts.size()) == shape[0], "input ", to_string(shape),
               " and ", counts.size(), " counts do not fit");
    std::vector<std::int64_t> places, padding;
    std::int64_t longest = 0;
    Value sums = Value::zeros(ElementType::int32, {shape[0] + 1});
    for (std::int64_t b = 0; b < shape[0]; ++b) {
        const std::int64_t count = counts[static_cast<std::size_t>(b)];
        call.check(count >= 0 && count <= shape[1], "sequence_token_count has ", count, " of ", shape[1]);
        longest = std::max(longest, count);
        for (std::int64_t i = 0; i < shape[1]; ++i)
            (i < count ? places : padding).push_back(b * shape[1] + i);
        sums.mutable_host<std::int32_t>()[static_cast<std::size_t>(b + 1)] = static_cast<std::int32_t>(places.size());
    }
    const auto tokens = static_cast<std::int64_t>(places.size());
    call.output(0, unpadded(call, call.input(0), {Value::ints(places), shape[0], shape[1], tokens}));
    places.insert(places.end(), padding.begin(), padding.end());
    Value offsets = Value::zeros(ElementType::int32, {shape[0], shape[1]});
    std::ranges::transform(places, offsets.mutable_host<std::int32_t>().begin(),
                           [](std::int64_t place) { return static_cast<std::int32_t>(place); });
    call.output(1, offsets);
    call.output(2, sums);
    Value most = Value::zeros(ElementType::int32, {1});
    most.mutable_host<std::int32_t>()[0] = static_cast<std::int32_t>(longest);
    call.output(3, most);
}

void restore_padding(Call& call)
{
    call.check(call.shape(0).size() == 2, "input has shape ", to_string(call.shape(0)), ", expected [tokens, size]");
    call.output(0, padded(call, call.input(0), packing_of(call, 1, call.shape(0)[0])));
}

// Hides keys behind the end of their sample, whose ends among all tokens are input `sums` [batch + 1].
Tensor hidden_padding(const Call& call, const Packing& packing, std::size_t sums, DataType type)
{
    const Tensor ends = call.contiguous(sums);
    call.check(ends.shape == Dims{packing.batch + 1}, "cumulative_sequence_length has shape ", to_string(ends.shape),
               ", expected [", packing.batch + 1, "]");
    const auto column = [&](const Tensor& t) { return t.reshape({packing.batch, 1, 1, 1}); };
    const Tensor inputs[] = {column(ends.slice(0, 0, packing.batch)), column(ends.slice(0, 1, packing.batch + 1)),
                             positions(call, packing.length)};
    const Tensor bias = call.allocate({packing.batch, 1, 1, packing.length}, type);
    const Scalar hidden = call.float_attribute("mask_filter_value", -10000);
    pointwise(call.queue(), inputs, std::span(&bias, 1), std::span(&hidden, 1), "y0 = x2 < x1 - x0 ? 0 : w0;");
    return bias;
}

struct PackedInputs {
    std::size_t offsets, sums, bias;
};

void attend_packed(Call& call, Scores scores, const Packing& packing, const PackedInputs& at)
{
    scores.bias = sum_of(call, hidden_padding(call, packing, at.sums, scores.query.dtype),
                         call.tensor_or_none(at.bias));
    scores.scale = scale_of(call, scores.query.size(3));
    call.output(0, unpadded(call, Value(attended(call, scores)), packing));
}

void packed_attention(Call& call)
{
    const Compose op(call);
    call.check(call.shape(0).size() == 2, "input has shape ", to_string(call.shape(0)), ", expected [tokens, size]");
    const Packing packing = packing_of(call, 3, call.shape(0)[0]);
    const Value projected = op("Add", {op("MatMul", {call.input(0), call.input(1)}), call.input(2)});
    const Tensor x = padded(call, projected, packing).device(call.queue());
    attend_packed(call, split_projection(call, x), packing, {3, 4, 5});
}

void packed_multi_head_attention(Call& call)
{
    const Compose op(call);
    const std::int64_t heads = head_count(call, "num_heads");
    const Packing packing = packing_of(call, 4, call.shape(0).at(0));
    std::vector<Value> parts;
    if (call.shape(0).size() == 4) {
        const Dims& shape = call.shape(0);
        call.check(shape[1] == heads && shape[2] == 3 && !call.has(1) && !call.has(2), "a packed query has shape ",
                   to_string(shape), ", expected [tokens, ", heads, ", 3, size], and no key or value");
        const auto split = run_operator(call, "Split", {call.input(0)},
                                        {{"axis", std::int64_t{2}}, {"num_outputs", std::int64_t{3}}}, 3);
        for (const Value& part : split)
            parts.push_back(part.reshaped({shape[0], heads * shape[3]}, call.queue()));
    } else {
        parts = {call.input(0), call.input(1), call.input(2)};
    }
    std::int64_t begin = 0;
    for (Value& part : parts) {
        call.check(part.dim() == 2 && part.shape()[0] == packing.tokens, "query, key and value must be [tokens, size]");
        const std::int64_t end = begin + part.shape()[1];
        if (call.has(3)) {
            call.check(call.shape(3).size() == 1 && end <= call.shape(3)[0], "a bias of ", to_string(call.shape(3)),
                       " does not fit");
            part = op("Add", {part, Value(call.tensor(3).slice(0, begin, end))});
        }
        begin = end;
        part = padded(call, part, packing);
    }
    Scores scores;
    scores.query = heads_of(call, parts[0].device(call.queue()), heads);
    scores.key = heads_of(call, parts[1].device(call.queue()), heads);
    scores.value = heads_of(call, parts[2].device(call.queue()), heads);
    attend_packed(call, scores, packing, {4, 5, 6});
}

// rel_pos times a gate of each query: sigmoids of two sums of a product of its heads.
void gated_relative_position_bias(Call& call)
{
    const Compose op(call);
    const std::int64_t heads = head_count(call, "num_heads");
    Value query = op("Add", {call.input(0), call.input(1)});
    if (call.has(6))
        query = padded(call, query, packing_of(call, 6, query.shape().at(0)));
    const Tensor by_head = heads_of(call, query.device(call.queue()), heads);
    const Value product = op("Add", {op("MatMul", {Value(by_head), call.input(3)}), call.input(4)});
    const Dims shape = product.shape();
    call.check(shape[3] % 2 == 0, "weight has ", shape[3], " columns, expected an even number");
    const Value sums = op("ReduceSum", {product.reshaped({shape[0], shape[1], shape[2], 2, shape[3] / 2}, call.queue()),
                                        Value::ints(std::array{std::int64_t{4}})}, {{"keepdims", std::int64_t{0}}});
    const auto gates = run_operator(call, "Split", {op("Sigmoid", {sums})},
                                    {{"axis", std::int64_t{3}}, {"num_outputs", std::int64_t{2}}}, 2);
    const Tensor inputs[] = {gates[0].device(call.queue()), gates[1].device(call.queue()), call.tensor(5),
                             call.tensor(2)};
    const Tensor y = call.allocate({shape[0], shape[1], shape[2], inputs[3].shape.back()}, inputs[3].dtype);
    call.check(broadcast(broadcast(inputs[3].shape, inputs[2].shape), y.shape) == y.shape, "rel_pos ",
               to_string(inputs[3].shape), " and eco_a ", to_string(inputs[2].shape), " do not fit ",
               to_string(y.shape));
    pointwise(call.queue(), inputs, std::span(&y, 1), {}, "y0 = (x0 * (x1 * x2 - 1) + 2) * x3;");
    call.output(0, Value(y));
}

const OperatorRow contrib_packed_rows[] = {
    {"RemovePadding", 1, remove_padding, nullptr, microsoft},
    {"RestorePadding", 1, restore_padding, nullptr, microsoft},
    {"PackedAttention", 1, packed_attention, nullptr, microsoft},
    {"PackedMultiHeadAttention", 1, packed_multi_head_attention, nullptr, microsoft},
    {"GatedRelativePositionBias", 1, gated_relative_position_bias, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_packed_operators() { return contrib_packed_rows; }

}  // namespace clprim::onnx
