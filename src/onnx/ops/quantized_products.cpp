// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. Products of integers are summed exactly, modulo 2^32.
#include <clprim/integer_add.hpp>
#include <clprim/integer_conv.hpp>
#include <clprim/integer_matmul.hpp>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/narrow_type.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/quantize.hpp"
#include "onnx/ops/result_like.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

// A zero point or scale of one element, or with one along `axis` of `dims` axes, in the shape in which it broadcasts.
Tensor along_axis(const Call& call, std::size_t i, std::size_t axis, const Dims& shape)
{
    const Tensor tensor = call.contiguous(i);
    if (tensor.numel() == 1)
        return tensor.reshape({});
    if (tensor.dim() > 1) {
        broadcast(shape, tensor.shape);
        return tensor;
    }
    call.check(tensor.size(0) == shape[axis], "input ", i, " has shape ", to_string(tensor.shape),
               ", expected one element or ", shape[axis]);
    Dims line(shape.size(), 1);
    line[axis] = shape[axis];
    return tensor.reshape(line);
}

// Input `i` minus its zero point, as `type`.
Tensor centred(const Call& call, std::size_t i, std::size_t zero, std::size_t axis, DataType type)
{
    const Tensor x = call.tensor(i), result = call.allocate(x.shape, type);
    call.check(x.dtype == DataType::int8 || x.dtype == DataType::uint8, "input ", i, " is ", name_of(call.type(i)),
               ", expected int8 or uint8");
    std::vector<Tensor> inputs{x};
    if (call.has(zero)) {
        call.check(call.type(zero) == call.type(i), "the zero point is ", name_of(call.type(zero)), ", expected ",
                   name_of(call.type(i)));
        inputs.push_back(along_axis(call, zero, axis, x.shape));
    }
    pointwise(call.queue(), inputs, {&result, 1}, {}, call.has(zero) ? "y0 = (int)x0 - (int)x1;" : "y0 = x0;");
    return result;
}

// The left matrix of a product where no input is it: contiguous bytes and a zero point, which may be none.
struct QuantizedLeft {
    Value a, zero;
};

// Where the matrices of a product find their inputs.
struct MatrixInputs {
    std::size_t a, a_zero, b, b_zero;
};

// Whether zero points are none, one number or one for each of `lines`.
bool are_for_lines(const Value& zeros, std::int64_t lines)
{
    return zeros.is_none() || zeros.numel() == 1 || (zeros.dim() <= 1 && zeros.numel() == lines);
}

Value input_or_none(const Call& call, std::size_t i) { return call.has(i) ? call.input(i) : Value(); }

// Whether an input is known to be zeros alone.
bool is_nothing(const Call& call, std::size_t i)
{
    const Value& value = call.input(i);
    if (!call.prepared(i) || !value.on_host())
        return false;
    const std::byte* bytes = value.host_bytes();
    return std::all_of(bytes, bytes + value.numel(), [](std::byte byte) { return byte == std::byte{0}; });
}

// Matrices of a, input `at.a` or `left` of whatever the node made of it, times one matrix b are one taller product, of
// the bytes as they lie; real with scales.
std::optional<Tensor> product_of_bytes(const Call& call, const MatrixInputs& at, const IntegerScales& scales = {},
                                       const QuantizedLeft* left = nullptr)
{
    const Value &a_value = left ? left->a : call.input(at.a), &b_value = call.input(at.b);
    const Value a_zero = left ? left->zero : input_or_none(call, at.a_zero), b_zero = input_or_none(call, at.b_zero);
    const Dims &a_shape = a_value.shape(), &b_shape = b_value.shape();
    if (a_shape.size() < 2 || b_shape.size() != 2 || a_shape.back() != b_shape[0])
        return std::nullopt;
    const std::int64_t k = b_shape[0], n = b_shape[1], rows = k == 0 ? 0 : a_value.numel() / k;
    const auto is_byte = [](const Value& v) { return v.type() == ElementType::int8 || v.type() == ElementType::uint8; };
    const auto fits = [&](const Value& zero, const Value& of) { return zero.is_none() || zero.type() == of.type(); };
    if (rows == 0 || !is_byte(a_value) || !is_byte(b_value) || !fits(a_zero, a_value) || !fits(b_zero, b_value) ||
        !are_for_lines(a_zero, a_shape.size() == 2 ? rows : 1) || !are_for_lines(b_zero, n))
        return std::nullopt;
    IntegerZeros zeros;
    if (!a_zero.is_none())
        zeros.a = left ? left->zero.device(call.queue()) : call.contiguous(at.a_zero);
    if (!b_zero.is_none() && !is_nothing(call, at.b_zero))   // exporters write zeros where they need none
        zeros.b = call.contiguous(at.b_zero);
    if (b_zero.is_none() || call.prepared(at.b_zero))
        zeros.prepared_b = call.prepared(at.b);
    Dims shape = a_shape;
    shape[shape.size() - 1] = n;
    const Tensor a = left ? left->a.device(call.queue()) : call.contiguous(at.a), b = call.tensor(at.b);
    const Tensor c = call.allocate(shape, scales.scale.defined() ? DataType::float32 : DataType::int32);
    integer_matmul(call.queue(), a.reshape({rows, k}), b, c.reshape({rows, n}), zeros, scales);
    return c;
}

Tensor integer_product(const Call& call, const MatrixInputs& at)
{
    const Dims &a_shape = call.shape(at.a), &b_shape = call.shape(at.b);
    call.check(a_shape.size() >= 1 && b_shape.size() >= 1, "a product needs matrices, got shapes ", to_string(a_shape),
               " and ", to_string(b_shape));
    if (const auto product = product_of_bytes(call, at))
        return *product;
    Tensor a =
        centred(call, at.a, at.a_zero, a_shape.size() - std::min<std::size_t>(a_shape.size(), 2), DataType::int32);
    Tensor b = centred(call, at.b, at.b_zero, b_shape.size() - 1, DataType::int32);
    if (a.dim() == 1)
        a = a.reshape({1, a.size(0)});
    if (b.dim() == 1)
        b = b.reshape({b.size(0), 1});
    call.check(a.shape.back() == b.size(b.dim() - 2), "shapes ", to_string(a_shape), " and ", to_string(b_shape),
               " do not fit a product");
    const auto batches = [](const Tensor& t) {
        return Dims(std::span<const std::int64_t>(t.shape).first(t.dim() - 2));
    };
    Dims shape = broadcast(batches(a), batches(b));
    shape.push_back(a.size(a.dim() - 2));
    shape.push_back(b.shape.back());
    const Tensor c = call.allocate(shape, DataType::int32);
    batched_product(call.queue(), a, b, c);
    Dims result;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (!(d + 2 == shape.size() && a_shape.size() == 1) && !(d + 1 == shape.size() && b_shape.size() == 1))
            result.push_back(shape[d]);
    return c.reshape(result);
}

void matmul_integer(Call& call) { call.output(0, Value(integer_product(call, {0, 2, 1, 3}))); }

// A fusion's product of x with a constant matrix, times a scale, plus a bias of columns.
void matmul_integer_to_float(Call& call)
{
    const Dims &a = call.shape(0), &b = call.shape(1), &scale = call.shape(4);
    const bool fits = call.type(4) == ElementType::float32 && b.size() == 2 && scale.size() <= a.size() &&
                      (scale.product() == 1 || (scale.product() == b[1] && scale.back() == b[1]));
    if (fits) {
        IntegerScales scales{call.contiguous(4), call.has(5) ? call.contiguous(5) : Tensor()};
        if (const auto product = product_of_bytes(call, {0, 2, 1, 3}, scales))
            return call.output(0, Value(*product));
    }
    std::vector<Value> arguments;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        arguments.push_back(call.has(i) ? call.input(i) : Value());
    call.output(0, call.run(*call.attribute<GraphRef>("operators"), arguments)[0]);
}

Tensor line_of(const Call& call, const Value& v)
{
    const Tensor t = v.device(call.queue());
    return t.is_contiguous() ? t.reshape({t.numel()}) : Tensor();
}

// Where a result finds its scales and its zero point.
struct ScaleInputs {
    std::size_t a, b, y, y_zero;
    std::size_t a_axis, b_axis;              // of the result, along which scales may vary
};

// y = saturate(round(sum * (a_scale * b_scale / y_scale)) + zero).
void requantize(Call& call, const Tensor& sum, const ScaleInputs& at)
{
    const ElementType type = call.type(at.y_zero);
    const IntegerRange range = integer_range(type);
    call.check(type == ElementType::int8 || type == ElementType::uint8, "the result's zero point is ", name_of(type),
               ", expected int8 or uint8");
    const Tensor inputs[] = {sum, along_axis(call, at.a, at.a_axis, sum.shape),
                             along_axis(call, at.b, at.b_axis, sum.shape), along_axis(call, at.y, at.a_axis, sum.shape),
                             along_axis(call, at.y_zero, at.a_axis, sum.shape)};
    const Tensor y = call.output_tensor(0, sum.shape, type);
    const Scalar bounds[] = {range.low, range.high};
    const DataType types[] = {DataType::int32, DataType::int32};
    // Scales of short floats multiply in their own precision.
    const char* round = call.type(at.a) == ElementType::float16    ? "round_float16"
                        : call.type(at.a) == ElementType::bfloat16 ? "round_bfloat16"
                                                                   : "";
    const std::string code = detail::concat(
        "float scale = ", round, "(", round, "((float)x1 * (float)x2) / (float)x3);"
        "float q = fmin(fmax(rint((float)x0 * scale), -65536.0f), 65536.0f); y0 = clamp((int)q + (int)x4, w0, w1);");
    pointwise(call.queue(), inputs, {&y, 1}, bounds, code, types);
}

void qlinear_matmul(Call& call)
{
    const Tensor sum = integer_product(call, {0, 2, 3, 5});
    const std::size_t last = sum.dim() ? sum.dim() - 1 : 0;
    requantize(call, sum, {1, 4, 6, 7, last ? last - 1 : 0, last});
}

struct ConvInputs {
    std::size_t x, x_zero, w, w_zero, bias;
};

// What integer_conv takes, but for the result and what turns sums into it.
struct ConvOperands {
    Tensor x, w;
    IntegerConv conv;
    Dims shape;                              // of the result
};

// A zero point of one element, or one for each of `channels`.
Tensor zero_point(const Call& call, std::size_t i, std::size_t of, std::int64_t channels)
{
    if (!call.has(i))
        return {};
    call.check(call.type(i) == call.type(of), "the zero point is ", name_of(call.type(i)), ", expected ",
               name_of(call.type(of)));
    const Tensor zero = call.contiguous(i);
    call.check(zero.numel() == 1 || zero.numel() == channels, "input ", i, " has shape ", to_string(zero.shape),
               ", expected one element or ", channels);
    return zero;
}

ConvOperands conv_operands(const Call& call, const ConvInputs& at)
{
    const Dims &x_shape = call.shape(at.x), &w_shape = call.shape(at.w);
    call.check(x_shape.size() >= 3 && x_shape.size() <= 5 && w_shape.size() == x_shape.size(), "x has shape ",
               to_string(x_shape), " and w ", to_string(w_shape), ", expected N, C and one to three spatial axes");
    for (const std::size_t i : {at.x, at.w})
        call.check(call.type(i) == ElementType::int8 || call.type(i) == ElementType::uint8, "input ", i, " is ",
                   name_of(call.type(i)), ", expected int8 or uint8");
    const Windows window = windows(call, x_shape, spatial_sizes(call, w_shape));
    ConvOperands result{image(call, at.x), call.tensor(at.w), {}, {}};
    ConvOptions& options = result.conv.options;
    options.stride = window.stride;
    options.dilation = window.dilation;
    options.pad_begin = window.pad_begin;
    options.pad_end = window.pad_end;
    options.groups = call.integer_attribute("group", 1);
    call.check(options.groups > 0 && x_shape[1] == w_shape[1] * options.groups && w_shape[0] % options.groups == 0,
               "x has ", x_shape[1], " channels, w ", to_string(w_shape), " and group is ", options.groups);
    if (!call.has(at.w_zero) || call.prepared(at.w_zero))
        options.prepared = call.prepared(at.w);
    result.shape = conv_output_shape(x_shape, w_shape, options);
    for (const std::int64_t size : result.shape)
        call.check(size >= 0, "the result would have shape ", to_string(result.shape));
    result.conv.x_zero = zero_point(call, at.x_zero, at.x, 1);
    result.conv.w_zero = zero_point(call, at.w_zero, at.w, w_shape[0]);
    if (at.bias && call.has(at.bias)) {
        call.check(call.type(at.bias) == ElementType::int32, "the bias is ", name_of(call.type(at.bias)),
                   ", expected int32");
        call.check(call.input(at.bias).numel() == w_shape[0], "the bias has shape ", to_string(call.shape(at.bias)),
                   ", expected ", w_shape[0]);
        result.conv.bias = call.contiguous(at.bias);
    }
    return result;
}

// Channels lie innermost between convolutions on CPUs.
Tensor byte_image(const Call& call, const Dims& shape, DataType dtype)
{
    return output_image(call, shape, dtype, shape.size() == 4 && call.queue().device().kind == DeviceKind::cpu);
}

void conv_integer(Call& call)
{
    const ConvOperands operands = conv_operands(call, {0, 2, 1, 3, 0});
    const Tensor y = byte_image(call, operands.shape, DataType::int32);
    call.output(0, Value(y));
    integer_conv(call.queue(), operands.x, operands.w, y, operands.conv);
}

// x_scale * w_scale / y_scale, made once where none of them changes.
Tensor requantisation(const Call& call, std::size_t x, std::size_t w, std::size_t y)
{
    const auto make = [&] {
        std::vector<Tensor> inputs;
        for (const std::size_t i : {x, w, y}) {
            if (!call.has(i))
                break;
            const Tensor scale = call.contiguous(i);
            inputs.push_back(scale.reshape({scale.numel()}));
        }
        const Tensor result = call.allocate(inputs[1].shape, DataType::float32);
        pointwise(call.queue(), inputs, {&result, 1}, {},
                  inputs.size() == 3 ? "y0 = x0 * x1 / x2;" : "y0 = x0 * x1;");
        return result;
    };
    Prepared* prepared = call.prepared(w);
    const bool constant = prepared && call.prepared(x) && (!call.has(y) || call.prepared(y));
    if (!constant)
        return make();
    return prepared->get(call.queue(), detail::concat("requantisation ", call.node().name, call.node().outputs[0]),
                         make);
}

bool is_one_float(const Call& call, std::size_t i)
{
    return call.type(i) == ElementType::float32 && call.input(i).numel() == 1;
}

ElementType result_type(const Call& call)
{
    const ElementType type = call.has(7) ? call.type(7) : ElementType::uint8;
    call.check(type == ElementType::int8 || type == ElementType::uint8, "the result's zero point is ", name_of(type),
               ", expected int8 or uint8");
    return type;
}

void set_bounds(const Call& call, IntegerConv& conv)
{
    conv.low = static_cast<std::int32_t>(call.integer_attribute("low", conv.low));
    conv.high = static_cast<std::int32_t>(call.integer_attribute("high", conv.high));
}

// ONNX's, and that of a fusion: real without scale of y, bounds of an activation as attributes low and high.
void qlinear_conv(Call& call)
{
    ConvOperands operands = conv_operands(call, {0, 2, 3, 5, 8});
    const std::int64_t channels = call.shape(3)[0];
    const bool real = !call.has(6);
    if (!(is_one_float(call, 1) && call.type(4) == ElementType::float32 &&
          (call.input(4).numel() == 1 || call.input(4).numel() == channels) &&
          (real || (is_one_float(call, 6) && (!call.has(7) || call.input(7).numel() == 1))))) {
        const Tensor sum = call.allocate(operands.shape, DataType::int32);
        integer_conv(call.queue(), operands.x, operands.w, sum, operands.conv);
        return requantize(call, sum, {1, 4, 6, 7, 1, 1});
    }
    operands.conv.scale = requantisation(call, 1, 4, 6);
    const ElementType type = real ? ElementType::float32 : result_type(call);
    if (!real && call.has(7))
        operands.conv.y_zero = call.contiguous(7);
    set_bounds(call, operands.conv);
    const Tensor y = byte_image(call, operands.shape, storage_type(type));
    call.output(0, Value(y, type));
    integer_conv(call.queue(), operands.x, operands.w, y, operands.conv);
}

// A fusion's product of x [..., k] and constant weights, [n, k] with attribute transB, else [k, n], with QLinearConv's
// inputs: a convolution of one tap.
void qlinear_gemm(Call& call)
{
    const Dims& x_shape = call.shape(0);
    const bool turned = call.integer_attribute("transB", 0) != 0;
    Tensor w = call.tensor(3);
    if (!turned)
        w = w.transpose(0, 1);
    call.check(!x_shape.empty() && x_shape.size() >= 2 && x_shape.back() == w.size(1), "shapes ", to_string(x_shape),
               " and ", to_string(call.shape(3)), " do not fit a product");
    const std::int64_t n = w.size(0), k = w.size(1), rows = k ? call.input(0).numel() / k : 0;
    w.shape = {n, k, 1};
    w.strides = {w.stride(0), w.stride(1), 1};
    IntegerConv conv;
    conv.options.prepared = call.prepared(3);
    conv.x_zero = zero_point(call, 2, 0, 1);
    conv.w_zero = zero_point(call, 5, 3, n);
    conv.scale = requantisation(call, 1, 4, 6);
    if (call.has(8))
        conv.bias = call.contiguous(8);
    const bool real = !call.has(6);
    if (!real && call.has(7))
        conv.y_zero = call.contiguous(7);
    set_bounds(call, conv);
    Dims shape = x_shape;
    shape[shape.size() - 1] = n;
    const Tensor y = call.output_tensor(0, shape, real ? ElementType::float32 : result_type(call));
    Tensor x = call.contiguous(0).reshape({rows, k});
    x.shape = {1, k, rows};                  // rows are the pixels
    x.strides = {rows * k, 1, k};
    Tensor target = y;
    target.shape = {1, n, rows};
    target.strides = {rows * n, 1, n};
    integer_conv(call.queue(), x, w, target, conv);
}

// a and b with scale and zero point each, those of the result: act(a + b), quantised. com.microsoft's QLinearAdd, and
// that of a fusion with bounds as attributes.
void qlinear_add(Call& call)
{
    const ElementType type = call.type(0), to = call.has(7) ? call.type(7) : type;
    const auto scaled = [&](std::size_t i, const Tensor& values) {
        return ScaledBytes{values, call.contiguous(i), call.has(i + 1) ? call.contiguous(i + 1) : Tensor()};
    };
    const Tensor inputs[] = {call.tensor(0), call.tensor(3)};
    const Tensor y = result_like(call, inputs, broadcast(inputs[0].shape, inputs[1].shape), storage_type(to));
    call.output(0, Value(y, to));
    const IntegerRange range = integer_range(to);
    integer_add(call.queue(), scaled(1, inputs[0]), scaled(4, inputs[1]), scaled(6, y),
                static_cast<std::int32_t>(std::max(range.low, call.integer_attribute("low", range.low))),
                static_cast<std::int32_t>(std::min(range.high, call.integer_attribute("high", range.high))));
}

const OperatorRow quantized_product_rows[] = {
    {"MatMulInteger", 10, matmul_integer},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, nullptr, "clprim"},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"ConvInteger", 10, conv_integer},
    {"QLinearConv", 10, qlinear_conv},
    {"QLinearConv", 1, qlinear_conv, nullptr, "clprim"},
    {"QLinearGemm", 1, qlinear_gemm, nullptr, "clprim"},
    {"QLinearAdd", 1, qlinear_add, nullptr, "clprim"},
    {"QLinearAdd", 1, qlinear_add, nullptr, "com.microsoft"},
};

}  // namespace

std::optional<Value> real_product_of_bytes(const Call& call, const IntegerProduct& p, std::size_t b,
                                           std::size_t b_zero)
{
    const auto is_real = [](const Value& v) { return v.type() == ElementType::float32; };
    const std::int64_t n = p.b.dim() == 2 ? p.b.shape()[1] : 0;
    if (n == 0 || !is_real(p.a_scale) || !is_real(p.b_scale) || p.a_scale.numel() != 1 ||
        (p.b_scale.numel() != 1 && p.b_scale.numel() != n) ||
        (!p.bias.is_none() && (!is_real(p.bias) || p.bias.numel() != n)))
        return std::nullopt;
    IntegerScales scales{call.allocate({p.b_scale.numel()}, DataType::float32),
                         p.bias.is_none() ? Tensor() : line_of(call, p.bias)};
    const Tensor a_scale = line_of(call, p.a_scale), b_scale = line_of(call, p.b_scale);
    const QuantizedLeft left{p.a, p.a_zero};
    const Tensor a = p.a.device(call.queue());
    if (!a.is_contiguous() || !b_scale.defined() || (!p.bias.is_none() && !scales.offset.defined()))
        return std::nullopt;
    pointwise(call.queue(), {a_scale, b_scale}, {scales.scale}, {}, "y0 = x0 * x1;");
    const auto product = product_of_bytes(call, {none, none, b, b_zero}, scales, &left);
    return product ? std::optional(Value(*product)) : std::nullopt;
}

std::span<const OperatorRow> quantized_product_operators() { return quantized_product_rows; }

}  // namespace clprim::onnx
