// com.microsoft's layers: embeddings, norms, products with fused or block-quantised operands, channels-last images.
#include <algorithm>
#include <cmath>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/distance.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

constexpr std::int64_t one = 1;

// ---- embeddings ------------------------------------------------------------------------------------------------------

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
        return call.has(table) ? op("DequantizeLinear", {call.input(table), op.input(scale), op.input(scale + 5)}) : Value();
    };
    embed(call, {call.input(0), op.input(1), real(2, 8), real(3, 9), real(4, 10), real(5, 11), real(6, 12), op.input(7), {}});
}

// ---- biases and activations --------------------------------------------------------------------------------------------

void bias_split_gelu(Call& call)
{
    const Compose op(call);
    const Value x = op("Add", {call.input(0), call.input(1)});
    const auto halves = run_operator(call, "Split", {x}, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}}, 2);
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

// ---- norms of images ---------------------------------------------------------------------------------------------------

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

// ---- channels last -----------------------------------------------------------------------------------------------------

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
    call.output(0, op.to_channels_last(op("Conv", {op.to_channels_first(call.input(0)), channels_first_weights(call, true),
                                                   op.input(2)},
                                          op.attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads",
                                                         "strides"}))));
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

// ---- block-quantised weights -------------------------------------------------------------------------------------------

// Numbers of 2, 4 or 8 bits packed along the last axis, the lowest bits first, each as a byte.
Tensor unpacked(const Call& call, const Tensor& packed, std::int64_t bits)
{
    if (bits == 8)
        return packed;
    const std::int64_t count = 8 / bits;
    Dims shape = packed.shape;
    shape.push_back(count);
    const Tensor bytes = call.allocate(shape, DataType::uint8);
    std::vector<Tensor> parts;
    std::string code;
    for (std::int64_t i = 0; i < count; ++i) {
        Tensor part = bytes.slice(packed.dim(), i, i + 1);
        part.shape.resize(packed.dim());
        part.strides.resize(packed.dim());
        parts.push_back(part);
        code += detail::concat("y", i, " = ((int)x0 >> ", i * bits, ") & ", (1 << bits) - 1, ";");
    }
    pointwise(call.queue(), std::span(&packed, 1), parts, {}, code);
    shape.resize(packed.dim());
    shape[packed.dim() - 1] *= count;
    return bytes.reshape(shape);
}

std::int64_t bits_of(const Call& call)
{
    const std::int64_t bits = call.integer_attribute("bits", 4);
    call.check(bits == 2 || bits == 4 || bits == 8, "bits is ", bits, ", expected 2, 4 or 8");
    return bits;
}

// B [n, blocks, bytes] with scales and zero points of each block.
struct BlockWeights {
    std::int64_t n, k, blocks, block, bits;
    Tensor packed, scales, zeros;            // zeros [n, blocks], bytes or the scales' type; undefined: the middle

    double middle() const { return static_cast<double>(1 << (bits - 1)); }
};

BlockWeights block_weights(const Call& call)
{
    BlockWeights w{};
    w.n = call.attribute<std::int64_t>("N");
    w.k = call.attribute<std::int64_t>("K");
    w.block = call.attribute<std::int64_t>("block_size");
    w.bits = bits_of(call);
    call.check(w.n > 0 && w.k > 0 && w.n < (1 << 30) && w.k < (1 << 30) && w.block >= 8 && w.block < (1 << 30),
               "N is ", w.n, ", K ", w.k, " and block_size ", w.block);
    call.check(call.integer_attribute("weight_prepacked", 0) == 0, "weight_prepacked is not supported");
    call.check(!call.has(4), "g_idx is not supported");
    w.blocks = (w.k + w.block - 1) / w.block;
    const std::int64_t bytes = w.block * w.bits / 8;
    w.packed = call.contiguous(1);
    call.check(w.packed.dtype == DataType::uint8 && w.packed.numel() == w.n * w.blocks * bytes, "B is ",
               name_of(w.packed.dtype), " ", to_string(w.packed.shape), ", expected uint8 [", w.n, ", ", w.blocks, ", ",
               bytes, "]");
    w.packed = w.packed.reshape({w.n, w.blocks, bytes});
    w.scales = call.contiguous(2);
    call.check(w.scales.numel() == w.n * w.blocks, "scales have shape ", to_string(w.scales.shape), ", expected [", w.n, ", ",
               w.blocks, "]");
    w.scales = w.scales.reshape({w.n, w.blocks, 1});
    if (!call.has(3))
        return w;
    const Tensor zeros = call.contiguous(3);
    const bool is_packed = zeros.dtype == DataType::uint8;
    const std::int64_t row = is_packed ? (w.blocks * w.bits + 7) / 8 : w.blocks;
    call.check(zeros.numel() == w.n * row, "zero_points have shape ", to_string(zeros.shape), ", expected [", w.n, ", ", row,
               "]");
    w.zeros = zeros.reshape({w.n, row});
    if (is_packed)
        w.zeros = unpacked(call, w.zeros, w.bits).slice(1, 0, w.blocks);
    w.zeros.shape = {w.n, w.blocks, 1};
    w.zeros.strides = {w.zeros.stride(0), w.zeros.stride(1), 0};
    return w;
}

// The weights as numbers of A's type, [n, k].
Tensor dequantized(const Call& call, const BlockWeights& w, DataType type)
{
    const Tensor whole = call.allocate({w.n, w.blocks, w.block}, type);
    const Tensor bytes = unpacked(call, w.packed, w.bits);
    std::vector<Tensor> inputs{bytes, w.scales};
    if (w.zeros.defined())
        inputs.push_back(w.zeros);
    pointwise(call.queue(), inputs, std::span(&whole, 1), std::array{Scalar(w.middle())},
              w.zeros.defined() ? "y0 = ((T)x0 - (T)x2) * x1;" : "y0 = ((T)x0 - w0) * x1;");
    return whole.reshape({w.n, w.blocks * w.block}).slice(1, 0, w.k);
}

// A few rows times the packed weights, which are read once and never stored as numbers: a sum over blocks and bytes, of
// which each holds some neighbours of a row.
Tensor product_of_rows(const Call& call, const Tensor& a, const BlockWeights& w)
{
    const std::int64_t rows = a.size(0), count = 8 / w.bits, bytes = w.packed.size(2), length = w.blocks * w.block;
    Tensor x = a;
    if (length != w.k) {
        x = call.allocate({rows, length}, a.dtype);
        fill(call.queue(), x.slice(1, w.k, length), 0);
        copy(call.queue(), a, x.slice(1, 0, w.k));
    }
    const auto columns = [&](const Tensor& t) {
        return Tensor(t.memory, t.offset, t.dtype, {1, w.n, w.blocks, t.size(2)},
                      {0, t.stride(0), t.stride(1), t.size(2) == 1 ? 0 : t.stride(2)});
    };
    std::vector<Tensor> inputs{columns(w.packed), columns(w.scales)};
    std::string zero = detail::concat("(float)", w.middle());
    if (w.zeros.defined()) {
        inputs.push_back(columns(w.zeros));
        zero = "(float)x2";
    }
    std::string sum;
    for (std::int64_t i = 0; i < count; ++i) {
        sum += detail::concat(sum.empty() ? "" : " + ", "(float)x", inputs.size(), " * ((float)(((int)x0 >> ", i * w.bits,
                              ") & ", (1 << w.bits) - 1, ") - ", zero, ")");
        inputs.emplace_back(x.memory, x.offset + i, x.dtype, Dims{rows, 1, w.blocks, bytes},
                            Dims{length, 0, w.block, count});
    }
    const Tensor y = call.allocate({rows, w.n}, a.dtype), target = y.reshape({rows, w.n, 1, 1});
    const std::string step = "s.sum += (float)x1 * (" + sum + ");";
    pointwise_reduce(call.queue(), inputs, std::span(&target, 1), {},
                     {.state = "float sum;", .init = "s.sum = 0;", .step = step, .combine = "s.sum += other.sum;",
                      .finish = "y0 = s.sum;"});
    return y;
}

void matmul_nbits(Call& call)
{
    const Compose op(call);
    const BlockWeights w = block_weights(call);
    const Tensor a = call.contiguous(0);
    call.check(a.dim() >= 1 && a.shape.back() == w.k && is_floating_point(a.dtype), "A is ", name_of(a.dtype), " ",
               to_string(a.shape), ", expected floating point with ", w.k, " columns");
    const std::int64_t rows = a.numel() / w.k;
    constexpr std::int64_t few = 4;
    Value y;
    if (rows <= few && rows > 0 && a.dtype != DataType::float64)
        y = Value(product_of_rows(call, a.reshape({rows, w.k}), w));
    else
        y = op("MatMul", {Value(a.reshape({rows, w.k})), Value(dequantized(call, w, a.dtype).transpose(0, 1))});
    if (call.has(5))
        y = op("Add", {y, call.input(5)});
    Dims shape = a.shape;
    shape[a.dim() - 1] = w.n;
    call.output(0, y.reshaped(shape, call.queue()));
}

// Rows are gathered first, with their scales and zero points, and made numbers then.
void gather_block_quantized(Call& call)
{
    const Compose op(call);
    const Dims& data = call.shape(0);
    const bool bytes = call.type(0) == ElementType::uint8;
    const std::int64_t bits = bytes ? bits_of(call) : 4;
    const std::size_t axis = call.axis(call.integer_attribute("gather_axis", 0), data.size());
    std::size_t quantized = call.axis(call.integer_attribute("quantize_axis", 1), data.size());
    call.check(axis != quantized, "gather_axis and quantize_axis are both ", axis);
    call.check(!bytes || axis + 1 != data.size(), "data packed along its last axis cannot be gathered along it");
    const auto rows = [&](const Value& v) {
        return op("Gather", {v, call.input(1)}, {{"axis", static_cast<std::int64_t>(axis)}});
    };
    Value x = rows(call.input(0)), zeros = call.has(3) ? rows(call.input(3)) : Value();
    const Value scales = rows(call.input(2));
    if (quantized > axis)
        quantized += call.input(1).dim() - 1;
    if (bytes) {
        const auto unpack = [&](const Value& v) {
            const Tensor t = v.device(call.queue());
            call.check(t.is_contiguous(), "rows are not dense");
            return unpacked(call, t, bits);
        };
        x = Value(unpack(x));
        if (zeros.is_none())
            zeros = op("Expand", {op.number(1 << (bits - 1), ElementType::uint8),
                                  Value::ints(std::span(scales.shape().begin(), scales.dim()))});
        else {
            const Tensor whole = unpack(zeros);
            const std::size_t last = whole.dim() - 1;
            zeros = Value(whole.slice(last, 0, std::min(whole.size(last), scales.shape()[last])));
        }
    }
    call.output(0, op("DequantizeLinear", {x, scales, zeros}, {{"axis", static_cast<std::int64_t>(quantized)},
                                                               {"block_size", call.integer_attribute("block_size", 128)}}));
}

// ---- positions ---------------------------------------------------------------------------------------------------------

// T5's buckets of distances: exact ones for near keys, then logarithmic up to max_distance.
std::int64_t distance_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t farthest, bool both_ways)
{
    std::int64_t first = 0;
    if (both_ways) {
        buckets /= 2;
        first = distance > 0 ? buckets : 0;
        distance = std::abs(distance);
    } else {
        distance = std::max<std::int64_t>(0, -distance);
    }
    const std::int64_t exact = buckets / 2;
    if (distance < exact)
        return first + distance;
    const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        std::log(static_cast<float>(farthest) / static_cast<float>(exact));
    const auto far = exact + static_cast<std::int64_t>(ratio * static_cast<float>(buckets - exact));
    return first + std::min(far, buckets - 1);
}

void relative_position_bias(Call& call)
{
    const Compose op(call);
    const std::int64_t queries = call.integer(1), keys = call.integer(2), farthest = call.attribute<std::int64_t>("max_distance");
    const bool both_ways = call.integer_attribute("is_bidirectional", 0) != 0;
    call.check(call.shape(0).size() == 2, "bias_table has shape ", to_string(call.shape(0)), ", expected [buckets, heads]");
    const std::int64_t buckets = call.shape(0)[0];
    call.check(queries >= 0 && keys >= 0 && queries < (1 << 20) && keys < (1 << 20) && buckets >= 4 && farthest > buckets / 2,
               "lengths ", queries, " and ", keys, ", ", buckets, " buckets and max_distance ", farthest, " do not fit");
    Value index = Value::zeros(ElementType::int64, {queries, keys});
    const auto at = index.mutable_host<std::int64_t>();
    for (std::int64_t q = 0; q < queries; ++q)
        for (std::int64_t k = 0; k < keys; ++k)
            at[static_cast<std::size_t>(q * keys + k)] = distance_bucket(k - q, buckets, farthest, both_ways);
    const Value bias = op.transposed(op("Gather", {call.input(0), index}), {2, 0, 1});
    call.output(0, op("Unsqueeze", {bias, Value::ints(std::array{std::int64_t{0}})}));
}

// ---- what ONNX has under other names ---------------------------------------------------------------------------------

void expand_dims(Call& call)
{
    const std::array axes{call.integer(1)};
    call.output(0, Compose(call)("Unsqueeze", {call.input(0), Value::ints(axes)}));
}

void range(Call& call)
{
    const Compose op(call);
    call.output(0, op("Range", {call.input(0), call.input(1), call.has(2) ? call.input(2) : op.number(1, call.type(0))}));
}

template <std::size_t inputs>
void same(Call& call, std::string_view name, std::initializer_list<std::string_view> attributes)
{
    const Compose op(call);
    std::vector<Value> values;
    for (std::size_t i = 0; i < inputs; ++i)
        values.push_back(op.input(i));
    call.output(0, op(name, std::move(values), op.attributes(attributes)));
}

void trilu(Call& call) { same<2>(call, "Trilu", {"upper"}); }
void gather_nd(Call& call) { same<2>(call, "GatherND", {}); }
void pad(Call& call) { same<3>(call, "Pad", {"mode"}); }
void grid_sample(Call& call) { same<2>(call, "GridSample", {"align_corners", "mode", "padding_mode"}); }
void is_all_finite(Call& call)
{
    const Compose op(call);
    const bool no_inf = call.integer_attribute("isnan_only", 0) != 0, no_nan = call.integer_attribute("isinf_only", 0) != 0;
    Value result = Value::scalar(true);
    for (std::size_t i = 0; i < call.inputs(); ++i)
        for (const char* kind : {"IsNaN", "IsInf"}) {
            if (std::string_view(kind) == "IsNaN" ? no_nan : no_inf)
                continue;
            const Value found = op("ReduceMax", {op.cast(op(kind, {call.input(i)}), ElementType::uint8)},
                                   {{"keepdims", std::int64_t{0}}});
            result = op("And", {result, op("Not", {op.cast(found, ElementType::boolean)})});
        }
    call.output(0, result);
}

void unique(Call& call)
{
    const auto results = run_operator(call, "Unique", {call.input(0)}, {{"sorted", std::int64_t{0}}}, 4);
    call.output(0, results[0]);
    call.output(1, results[2]);
    call.output(2, results[3]);
}

void cdist(Call& call)
{
    const Tensor a = call.contiguous(0), b = call.contiguous(1);
    const std::string metric = call.string_attribute("metric", "sqeuclidean");
    call.check(metric == "euclidean" || metric == "sqeuclidean", "metric is '", metric, "', expected euclidean or sqeuclidean");
    call.check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1) && a.dtype == b.dtype, "points ", to_string(a.shape),
               " and ", to_string(b.shape), " do not fit");
    const Tensor y = call.allocate({a.size(0), b.size(0)}, a.dtype);
    call.output(0, Value(y));
    if (y.numel() == 0)
        return;
    const auto batch = [](const Tensor& t) { return t.reshape({1, t.size(0), t.size(1)}); };
    pairwise_distances(call.queue(), batch(a), batch(b), 2, batch(y));
    if (metric == "sqeuclidean")
        pointwise(call.queue(), std::span(&y, 1), std::span(&y, 1), {}, "y0 = x0 * x0;");
}

constexpr const char* domain = "com.microsoft";
const OperatorRow rows[] = {
    {"EmbedLayerNormalization", 1, embed_layer_normalization, nullptr, domain},
    {"QEmbedLayerNormalization", 1, quantized_embed_layer_normalization, nullptr, domain},
    {"BiasSplitGelu", 1, bias_split_gelu, nullptr, domain},
    {"BiasAdd", 1, bias_add, nullptr, domain},
    {"BiasSoftmax", 1, bias_softmax, nullptr, domain},
    {"BiasDropout", 1, bias_dropout, nullptr, domain},
    {"FusedGemm", 1, fused_gemm, nullptr, domain},
    {"GemmFastGelu", 1, gemm_fast_gelu, nullptr, domain},
    {"GroupNorm", 1, group_norm, nullptr, domain},
    {"SkipGroupNorm", 1, skip_group_norm, nullptr, domain},
    {"NhwcConv", 1, nhwc_conv, nullptr, domain},
    {"NhwcFusedConv", 1, nhwc_fused_conv, nullptr, domain},
    {"NhwcMaxPool", 1, nhwc_max_pool, nullptr, domain},
    {"MatMulNBits", 1, matmul_nbits, nullptr, domain},
    {"GatherBlockQuantized", 1, gather_block_quantized, nullptr, domain},
    {"RelativePositionBias", 1, relative_position_bias, nullptr, domain},
    {"ExpandDims", 1, expand_dims, nullptr, domain},
    {"Range", 1, range, nullptr, domain},
    {"Trilu", 1, trilu, nullptr, domain},
    {"GatherND", 1, gather_nd, nullptr, domain},
    {"Pad", 1, pad, nullptr, domain},
    {"GridSample", 1, grid_sample, nullptr, domain},
    {"IsAllFinite", 1, is_all_finite, nullptr, domain},
    {"Unique", 1, unique, nullptr, domain},
    {"CDist", 1, cdist, nullptr, domain},
};

}  // namespace

std::span<const OperatorRow> contrib_layer_operators() { return rows; }

}  // namespace clprim::onnx
