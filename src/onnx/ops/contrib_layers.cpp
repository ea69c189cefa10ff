// com.microsoft's layers: embeddings, norms, products with fused operands, channels-last images.
#include <algorithm>
#include <cmath>
#include <limits>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/distance.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

constexpr std::int64_t one = 1;

// ---- embeddings ----

struct Embedding {
    Value ids, segments, words, positions, segment_table, gamma, beta, mask, position_ids;
};

// Layer norm of the sum of word, position and segment embeddings.
void embed(Call& call, const Embedding& e)
{
    const Compose op(call);
    call.check(e.ids.dim() == 2, "input_ids has shape ", to_string(e.ids.shape()), ", expected [batch, length]");
    const std::int64_t batch = e.ids.shape()[0], length = e.ids.shape()[1];
    Value at = e.position_ids;
    if (at.is_none())
        at = op("Range", {Value::scalar(std::int64_t{0}), Value::scalar(length), Value::scalar(one)});
    Value sum = op("Add", {op("Gather", {e.words, e.ids}), op("Gather", {e.positions, at})});
    if (!e.segment_table.is_none() && !e.segments.is_none())
        sum = op("Add", {sum, op("Gather", {e.segment_table, e.segments})});
    call.output(0, op("LayerNormalization", {sum, e.gamma, e.beta},
                      {{"epsilon", call.float_attribute("epsilon", 1e-12F)}}));
    call.output(2, sum);
    if (!call.wants(1))
        return;
    call.output(1, e.mask.is_none()              // how many tokens count
                       ? Value::zeros(ElementType::int32, {batch})
                       : op("ReduceSum", {e.mask, Value::ints(std::array{one})}, {{"keepdims", std::int64_t{0}}}));
}

void embed_layer_normalization(Call& call)
{
    const Compose op(call);
    embed(call, {call.input(0), op.input(1), call.input(2), call.input(3), op.input(4), call.input(5), op.input(6),
                 op.input(7), op.input(8)});
}

// The same with tables of bytes, each with a scale and a zero point for all of it.
void quantized_embed_layer_normalization(Call& call)
{
    const Compose op(call);
    const auto real = [&](std::size_t table, std::size_t scale) {
        return call.has(table) ? op("DequantizeLinear", {call.input(table), op.input(scale), op.input(scale + 5)})
                               : Value();
    };
    embed(call,
          {call.input(0), op.input(1), real(2, 8), real(3, 9), real(4, 10), real(5, 11), real(6, 12), op.input(7), {}});
}

// ---- biases and activations ----

void bias_split_gelu(Call& call)
{
    const Compose op(call);
    const Value x = op("Add", {call.input(0), call.input(1)});
    const auto halves =
        run_operator(call, "Split", {x}, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}}, 2);
    call.output(0, op("Mul", {halves[0], op("Gelu", {halves[1]})}));
}

void bias_add(Call& call)
{
    const Compose op(call);
    call.output(0, op("Add", {op("Add", {call.input(0), call.input(1)}), call.input(2)}));
}

// Rows are all axes from `axis` on.
void bias_softmax(Call& call)
{
    const Compose op(call);
    const Dims shape = call.shape(0);
    const Value sum = op("Add", {call.input(0), call.input(1)});
    call.check(sum.shape() == shape, "bias ", to_string(call.shape(1)), " does not broadcast to ", to_string(shape));
    const auto axis = static_cast<std::int64_t>(call.axis(call.integer_attribute("axis", 1), shape.size()));
    const Value rows = op("Flatten", {sum}, {{"axis", axis}});
    call.output(0, op("Softmax", {rows}, {{"axis", one}}).reshaped(shape, call.queue()));
}

// Dropout at inference: what is left is its bias and its residual.
void bias_dropout(Call& call)
{
    const Compose op(call);
    Value y = op("Add", {call.input(0), call.input(1)});
    if (call.has(2))
        y = op("Add", {y, call.input(2)});
    call.check(!call.has(4) || call.integer(4) == 0, "training_mode is not supported");
    call.output(0, y);
}

void fused_gemm(Call& call)
{
    const Compose op(call);
    const Value y = op("Gemm", {call.input(0), call.input(1), op.input(2)},
                       op.attributes({"alpha", "beta", "transA", "transB"}));
    const std::string name = call.string_attribute("activation", "");
    Attributes numbers;
    for (const char* number : {"alpha", "beta", "gamma"})
        if (const std::string given = std::string("activation_") + number; call.has_attribute(given))
            numbers[number] = call.float_attribute(given, 0);
    call.output(0, name.empty() ? y : op(name, {y}, std::move(numbers)));
}

void gemm_fast_gelu(Call& call)
{
    const Compose op(call);
    Value y = op("MatMul", {call.input(0), call.input(1)});
    if (call.has(2))
        y = op("Add", {y, call.input(2)});
    call.output(0, op("Gelu", {y}, {{"approximate", std::string("tanh")}}));
}

// ---- norms of images ----

Value group_norm_of(const Call& call, const Value& x)
{
    const Compose op(call);
    const bool channels_last = call.integer_attribute("channels_last", 1) != 0;
    const auto parameter = [&](std::size_t i) { return op.cast(call.input(i), x.type()); };
    Value y = op("GroupNormalization", {channels_last ? op.to_channels_first(x) : x, parameter(1), parameter(2)},
                 {{"num_groups", call.attribute<std::int64_t>("groups")},
                  {"epsilon", call.float_attribute("epsilon", 1e-5F)}});
    const std::int64_t activation = call.integer_attribute("activation", 0);
    call.check(activation == 0 || activation == 1, "activation is ", activation, ", expected 0 or 1 (SiLU)");
    if (activation)
        y = op("Mul", {y, op("Sigmoid", {y})});
    return channels_last ? op.to_channels_last(y) : y;
}

void group_norm(Call& call) { call.output(0, group_norm_of(call, call.input(0))); }

// Of x + skip + bias, where skip may have no spatial axes.
void skip_group_norm(Call& call)
{
    const Compose op(call);
    const bool channels_last = call.integer_attribute("channels_last", 1) != 0;
    const auto spread = [&](const Value& v) {
        const Dims& x = call.shape(0);
        if (v.dim() == x.size() || x.size() < 3)
            return v;
        Dims shape(x.size(), 1);
        shape[0] = v.dim() == 2 ? v.shape()[0] : 1;
        shape[channels_last ? x.size() - 1 : 1] = v.shape().back();
        return v.reshaped(shape, call.queue());
    };
    Value sum = op("Add", {call.input(0), spread(call.input(3))});
    if (call.has(4))
        sum = op("Add", {sum, spread(call.input(4))});
    call.output(0, group_norm_of(call, sum));
    call.output(1, sum);
}

// ---- channels last ----

// Weights may be [out, spatial..., in] or [out, in, spatial...]; `ours` says which of the two where both fit.
Value channels_first_weights(const Call& call, bool spatial_first)
{
    const Compose op(call);
    const Value w = call.input(1);
    const std::int64_t in = call.shape(0).back(), groups = call.integer_attribute("group", 1);
    call.check(groups > 0 && w.dim() == call.shape(0).size(), "weights ", to_string(w.shape()), " do not fit input ",
               to_string(call.shape(0)));
    const bool last = w.shape().back() * groups == in, first = w.shape()[1] * groups == in;
    call.check(last || first, "weights ", to_string(w.shape()), " do not fit ", in, " channels");
    return (last && first ? spatial_first : last) ? op.to_channels_first(w) : w;
}

void nhwc_conv(Call& call)
{
    const Compose op(call);
    call.output(0, op.to_channels_last(op(
                       "Conv", {op.to_channels_first(call.input(0)), channels_first_weights(call, true), op.input(2)},
                       op.attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}))));
}

void nhwc_fused_conv(Call& call)
{
    const Compose op(call);
    const Value z = call.has(3) ? op.to_channels_first(call.input(3)) : Value();
    call.output(0, op.to_channels_last(op("com.microsoft.FusedConv",
                                          {op.to_channels_first(call.input(0)), channels_first_weights(call, false),
                                           op.input(2), z},
                                          op.attributes({"activation", "activation_params", "auto_pad", "dilations",
                                                         "group", "kernel_shape", "pads", "strides"}))));
}

void nhwc_max_pool(Call& call)
{
    const Compose op(call);
    call.output(0, op.to_channels_last(op("MaxPool", {op.to_channels_first(call.input(0))},
                                          op.attributes({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads",
                                                         "strides"}))));
}

// The largest of each window's elements; along the last axis a window ends ahead of the first whose mask is 0. A mask
// serves every plane, or each its own. (Of masks of several planes ONNX Runtime reads others.)
void max_pool_with_mask(Call& call)
{
    const Compose op(call);
    const Dims x = call.shape(0), mask = call.shape(1);
    call.check(x.size() >= 3 && mask.size() == x.size() && std::equal(x.begin() + 2, x.end(), mask.begin() + 2),
               "input ", to_string(x), " and mask ", to_string(mask), " do not fit");
    const Windows w = windows(call, x);
    const Dims y = w.output_shape(x, x[1]);
    const std::size_t axes = w.kernel.size();
    std::int64_t places = 1;
    for (std::size_t i = 0; i < axes; ++i) {
        call.check(y[i + 2] > 0, "no window of ", to_string(w.kernel), " fits input ", to_string(x));
        call.check(w.kernel[i] <= 4096 / places, "windows of ", to_string(w.kernel), " are too large");
        places *= w.kernel[i];
    }
    const Value least = op.number(std::numeric_limits<float>::lowest(), ElementType::float32);
    Value open = op("Cast", {op("Not", {op("Equal", {call.input(1), op.number(0, ElementType::int32)})})},
                    {{"to", std::int64_t{static_cast<int>(ElementType::float32)}}});
    if (axes > 1) {                          // the first element of a plane of two axes and more always counts
        Dims first(x.size(), 1);
        std::copy(x.begin() + 2, x.end(), first.begin() + 2);
        const std::int64_t size = first.product();
        const Value at = op("Range", {Value::scalar(std::int64_t{0}), Value::scalar(size), Value::scalar(one)});
        const Value is_first = op("Equal", {at, Value::scalar(std::int64_t{0})}).reshaped(first, call.queue());
        open = op("Where", {is_first, op.number(1, ElementType::float32), open});
    }
    // Borders count as open, and are the least of all.
    std::vector<std::int64_t> pads(2 * x.size());
    for (std::size_t i = 0; i < axes; ++i) {
        pads[i + 2] = w.pad_begin[i];
        pads[x.size() + i + 2] = std::max((y[i + 2] - 1) * w.stride[i] + w.kernel[i] - w.pad_begin[i] - x[i + 2],
                                          std::int64_t{0});
    }
    const auto padded = [&](const Value& v, const Value& fill) { return op("Pad", {v, Value::ints(pads), fill}); };
    const Value source = padded(call.input(0), least), gates = padded(open, op.number(1, ElementType::float32));
    Value best, way;
    for (std::int64_t place = 0; place < places; ++place) {
        std::vector<std::int64_t> begin, end, step, axis;
        std::int64_t left = place;
        for (std::size_t i = axes; i-- > 0; left /= w.kernel[i]) {
            const std::int64_t offset = left % w.kernel[i];
            begin.push_back(offset);
            end.push_back(offset + (y[i + 2] - 1) * w.stride[i] + 1);
            step.push_back(w.stride[i]);
            axis.push_back(static_cast<std::int64_t>(i + 2));
        }
        const auto part = [&](const Value& v) {
            return op("Slice", {v, Value::ints(begin), Value::ints(end), Value::ints(axis), Value::ints(step)});
        };
        const bool starts = place % w.kernel[axes - 1] == 0;         // of a run along the last axis
        way = starts ? part(gates) : op("Mul", {way, part(gates)});
        const Value here = op("Where", {op("Greater", {way, op.number(0, ElementType::float32)}), part(source), least});
        best = best.is_none() ? here : op("Max", {best, here});
    }
    call.output(0, best);
}

const OperatorRow contrib_layer_rows[] = {
    {"MaxpoolWithMask", 1, max_pool_with_mask, nullptr, microsoft},
    {"EmbedLayerNormalization", 1, embed_layer_normalization, nullptr, microsoft},
    {"QEmbedLayerNormalization", 1, quantized_embed_layer_normalization, nullptr, microsoft},
    {"BiasSplitGelu", 1, bias_split_gelu, nullptr, microsoft},
    {"BiasAdd", 1, bias_add, nullptr, microsoft},
    {"BiasSoftmax", 1, bias_softmax, nullptr, microsoft},
    {"BiasDropout", 1, bias_dropout, nullptr, microsoft},
    {"FusedGemm", 1, fused_gemm, nullptr, microsoft},
    {"GemmFastGelu", 1, gemm_fast_gelu, nullptr, microsoft},
    {"GroupNorm", 1, group_norm, nullptr, microsoft},
    {"SkipGroupNorm", 1, skip_group_norm, nullptr, microsoft},
    {"NhwcConv", 1, nhwc_conv, nullptr, microsoft},
    {"NhwcFusedConv", 1, nhwc_fused_conv, nullptr, microsoft},
    {"NhwcMaxPool", 1, nhwc_max_pool, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_layer_operators() { return contrib_layer_rows; }

}  // namespace clprim::onnx
