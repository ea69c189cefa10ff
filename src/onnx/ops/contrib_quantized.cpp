// com.microsoft's operators of quantised models. Those that ONNX Runtime defines by real numbers are computed so:
// operands are dequantised, the operator of ONNX runs, its result is quantised again. Products of integers are summed
// exactly.
#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/recurrent_layer.hpp"

namespace clprim::onnx {

namespace {

Value zero_of(ElementType type) { return Value::zeros(type, {}); }

Value dequantized(const Compose& op, const Value& x, std::size_t scale, const Attributes& attributes = {})
{
    return op("DequantizeLinear", {x, op.input(scale), op.input(scale + 1)}, attributes);
}

// Quantised by the scale at input `scale` and the zero point behind it; without one as `type`, around 0.
Value quantized(const Compose& op, const Value& x, std::size_t scale, ElementType type)
{
    const Value zero = op.input(scale + 1);
    return op("QuantizeLinear", {x, op.input(scale), zero.is_none() ? zero_of(type) : zero});
}

void binary(Call& call, std::string_view name)
{
    const Compose op(call);
    const Value y = op(name, {dequantized(op, call.input(0), 1), dequantized(op, call.input(3), 4)});
    call.output(0, quantized(op, y, 6, call.type(0)));
}

void multiply(Call& call) { binary(call, "Mul"); }

// An operator of one input: x, its scale and zero point, those of y.
void unary(Call& call, std::string_view name, Attributes attributes)
{
    const Compose op(call);
    const Value x = dequantized(op, call.input(0), 1);
    const bool channels_last = call.integer_attribute("channels_last", 0) != 0;
    Value y = op(name, {channels_last ? op.to_channels_first(x) : x}, std::move(attributes));
    if (channels_last)
        y = op.to_channels_last(y);
    call.output(0, quantized(op, y, 3, call.type(0)));
}

void sigmoid(Call& call) { unary(call, "Sigmoid", {}); }
void leaky_relu(Call& call) { unary(call, "LeakyRelu", Compose(call).attributes({"alpha"})); }
void global_average_pool(Call& call) { unary(call, "GlobalAveragePool", {}); }

void average_pool(Call& call)
{
    unary(call, "AveragePool", Compose(call).attributes({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape",
                                                         "pads", "strides"}));
}

// Before operator set 13 rows were all axes from `axis` on.
void softmax(Call& call)
{
    const Compose op(call);
    const std::int64_t given = call.integer_attribute("axis", -1);
    if (call.integer_attribute("opset", 13) >= 13)
        return unary(call, "Softmax", {{"axis", given}});
    const Dims shape = call.shape(0);
    const std::int64_t axis = static_cast<std::int64_t>(call.axis(given, shape.size()));
    const Value rows = op("Flatten", {dequantized(op, call.input(0), 1)}, {{"axis", axis}});
    const Value y = op("Softmax", {rows}, {{"axis", std::int64_t{1}}}).reshaped(shape, call.queue());
    call.output(0, quantized(op, y, 3, call.type(0)));
}

void reduce_mean(Call& call)
{
    const Compose op(call);
    const std::vector<std::int64_t> axes = call.ints_attribute("axes");
    const Value y =
        op("ReduceMean", {dequantized(op, call.input(0), 1), Value::ints(axes)}, op.attributes({"keepdims"}));
    call.output(0, quantized(op, y, 3, call.type(0)));
}

// The result's scale and zero point come first, then parts with their own.
void concat(Call& call)
{
    call.check(call.inputs() >= 5 && call.inputs() % 3 == 2,
               "expected a scale, a zero point and three inputs for each part");
    const Compose op(call);
    std::vector<Value> parts;
    for (std::size_t i = 2; i < call.inputs(); i += 3)
        parts.push_back(dequantized(op, call.input(i), i + 1));
    const Value y = op("Concat", std::move(parts), op.attributes({"axis"}));
    call.output(0, quantized(op, y, 0, call.type(2)));
}

void where(Call& call)
{
    const Compose op(call);
    const Value y = op("Where", {call.input(0), dequantized(op, call.input(1), 2), dequantized(op, call.input(4), 5)});
    call.output(0, quantized(op, y, 7, call.type(1)));
}

// ONNX's QLinearConv with channels where `channels_last` says.
void convolution(Call& call)
{
    const Compose op(call);
    const bool channels_last = call.integer_attribute("channels_last", 0) != 0;
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        inputs.push_back(op.input(i));
    if (channels_last)
        inputs[0] = op.to_channels_first(inputs[0]);
    const Value y = op("QLinearConv", std::move(inputs),
                       op.attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
    call.output(0, channels_last ? op.to_channels_last(y) : y);
}

// ---- products ----

// A scale or zero point of columns, for the last axis of [..., n]; of a stack of matrices [b, n] for each of its own.
Value for_columns(const Call& call, const Value& parameter, const Value& product)
{
    if (parameter.is_none() || parameter.dim() < 2 || product.dim() < 3)
        return parameter;
    Dims shape(product.dim(), 1);
    shape[product.dim() - 1] = parameter.shape().back();
    for (std::size_t d = 0; d + 1 < parameter.dim() && d + 2 < product.dim(); ++d)
        shape[d] = parameter.shape()[d];
    return parameter.reshaped(shape, call.queue());
}

// (a - a_zero)(b - b_zero) a_scale b_scale + bias, in the type of the scales; b and its zero point are the inputs
// `b_input` and `zero_input`.
Value real_product(const Call& call, const IntegerProduct& p, std::size_t b_input, std::size_t zero_input)
{
    if (const auto product = real_product_of_bytes(call, p, b_input, zero_input))
        return *product;
    const Compose op(call);
    const Value sums = op("MatMulInteger", {p.a, p.b, p.a_zero, p.b_zero});
    const ElementType type = p.a_scale.type();
    const Value scale = op("Mul", {p.a_scale, for_columns(call, p.b_scale, sums)});
    const Value y = op("Mul", {op.cast(sums, type), scale});
    return p.bias.is_none() ? y : op("Add", {y, p.bias});
}

void matmul_integer_to_float(Call& call)
{
    const Compose op(call);
    call.output(0, real_product(call, {call.input(0), op.input(4), call.input(2), call.input(1), op.input(5),
                                       call.input(3), op.input(6)}, 1, 5));
}

void dynamic_quantize_matmul(Call& call)
{
    const Compose op(call);
    const auto a = run_operator(call, "DynamicQuantizeLinear", {call.input(0)}, {}, 3);
    const IntegerProduct product{a[0], a[2], a[1], call.input(1), op.input(3), call.input(2), op.input(4)};
    call.output(0, real_product(call, product, 1, 3));
}

// y = alpha a_scale b_scale (A B + C), real without y_scale. C is integer, in units of both scales.
void gemm(Call& call)
{
    const Compose op(call);
    const auto side = [&](std::size_t i, const char* attribute) {
        call.check(call.shape(i).size() == 2, "input ", i, " has shape ", to_string(call.shape(i)),
                   ", expected a matrix");
        return call.integer_attribute(attribute, 0) ? op.transposed(call.input(i), {1, 0}) : call.input(i);
    };
    Value sums = op("MatMulInteger", {side(0, "transA"), side(3, "transB"), op.input(2), op.input(5)});
    if (call.has(6))
        sums = op("Add", {sums, call.input(6)});
    const Value scale = op("Mul", {call.input(1), call.input(4)});
    const Value alpha = op.number(call.float_attribute("alpha", 1), scale.type());
    const Value y = op("Mul", {op.cast(sums, scale.type()), op("Mul", {scale, alpha})});
    call.output(0, call.has(7) ? quantized(op, y, 7, call.type(0)) : y);
}

// Products of 16-bit integers, of whole tensors of integers.
void matmul_integer16(Call& call)
{
    const Compose op(call);
    call.output(0,
                op("MatMul", {op.cast(call.input(0), ElementType::int32), op.cast(call.input(1), ElementType::int32)}));
}

void multiply_integers(Call& call)
{
    const Compose op(call);
    const auto centred = [&](std::size_t i) {
        const Value x = op.cast(call.input(i), ElementType::int32);
        return call.has(i + 1) ? op("Sub", {x, op.cast(call.input(i + 1), ElementType::int32)}) : x;
    };
    call.output(0, op("Mul", {centred(0), centred(2)}));
}

void reduce_sum_integer(Call& call)
{
    const Compose op(call);
    const bool is_signed = call.type(0) == ElementType::int8;
    const Value x = op.cast(call.input(0), is_signed ? ElementType::int32 : ElementType::uint32);
    call.output(0, op("ReduceSum", {x, Value::ints(call.ints_attribute("axes"))}, op.attributes({"keepdims"})));
}

// Attention whose projection is a product of integers.
void attention(Call& call)
{
    const Compose op(call);
    const Value projected = real_product(call, {call.input(0), op.input(6), call.input(3), call.input(1), op.input(7),
                                                call.input(4), call.input(2)}, 1, 7);
    projected_attention(call, projected, {.mask = 5, .past = 8, .bias = none, .past_length = none});
}

// ---- other ----

// Weights [directions, in, 4 hidden] with a scale for all, or one for each column, as LSTM takes them.
Value lstm_weights(const Call& call, std::size_t weights, std::size_t scale)
{
    const Compose op(call);
    const Value w = call.input(weights);
    call.check(w.dim() == 3, "input ", weights, " has shape ", to_string(w.shape()),
               ", expected [directions, in, 4 hidden]");
    const auto spread = [&](const Value& parameter) {
        if (parameter.numel() == 1)
            return parameter.reshaped({1, 1, 1}, call.queue());
        const Dims& shape = parameter.shape();
        return parameter.reshaped({shape[0], 1, shape.size() > 1 ? shape[1] : 1}, call.queue());
    };
    Value x = op.cast(w, ElementType::float32);
    if (call.has(scale + 1))
        x = op("Sub", {x, op.cast(spread(call.input(scale + 1)), ElementType::float32)});
    return op.transposed(op("Mul", {x, spread(call.input(scale))}), {0, 2, 1});
}

void lstm(Call& call)
{
    if (run_bytes(call))
        return;
    const Compose op(call);
    std::vector<Value> inputs{call.input(0), lstm_weights(call, 1, 8), lstm_weights(call, 2, 10)};
    for (std::size_t i = 3; i < 8; ++i)
        inputs.push_back(op.input(i));
    const auto results = run_operator(call, "LSTM", std::move(inputs),
                                      op.attributes({"activation_alpha", "activation_beta", "activations", "clip",
                                                     "direction", "hidden_size", "input_forget"}), 3);
    for (std::size_t i = 0; i < 3; ++i)
        call.output(i, results[i]);
}

// ONNX's operators; a scale of one axis belongs to `axis`.
void quantize(Call& call)
{
    const Compose op(call);
    call.output(0, op("QuantizeLinear", {call.input(0), call.input(1), op.input(2)}, op.attributes({"axis"})));
}

void dequantize(Call& call)
{
    const Compose op(call);
    call.output(0, dequantized(op, call.input(0), 1, op.attributes({"axis"})));
}

const OperatorRow contrib_quantized_rows[] = {
    {"QLinearMul", 1, multiply, nullptr, microsoft},
    {"QLinearSigmoid", 1, sigmoid, nullptr, microsoft},
    {"QLinearLeakyRelu", 1, leaky_relu, nullptr, microsoft},
    {"QLinearSoftmax", 1, softmax, nullptr, microsoft},
    {"QLinearAveragePool", 1, average_pool, nullptr, microsoft},
    {"QLinearGlobalAveragePool", 1, global_average_pool, nullptr, microsoft},
    {"QLinearReduceMean", 1, reduce_mean, nullptr, microsoft},
    {"QLinearConcat", 1, concat, nullptr, microsoft},
    {"QLinearWhere", 1, where, nullptr, microsoft},
    {"QLinearConv", 1, convolution, nullptr, microsoft},
    {"QGemm", 1, gemm, nullptr, microsoft},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, nullptr, microsoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, nullptr, microsoft},
    {"MatMulInteger16", 1, matmul_integer16, nullptr, microsoft},
    {"MulInteger", 1, multiply_integers, nullptr, microsoft},
    {"ReduceSumInteger", 1, reduce_sum_integer, nullptr, microsoft},
    {"QAttention", 1, attention, nullptr, microsoft},
    {"DynamicQuantizeLSTM", 1, lstm, nullptr, microsoft},
    {"QuantizeLinear", 1, quantize, nullptr, microsoft},
    {"DequantizeLinear", 1, dequantize, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_quantized_operators() { return contrib_quantized_rows; }

}  // namespace clprim::onnx
