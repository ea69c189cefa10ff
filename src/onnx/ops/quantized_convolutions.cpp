// ConvInteger, QLinearConv, and products that are convolutions of one tap. Sums are exact, modulo 2^32.
#include <clprim/integer_conv.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/requantize.hpp"
#include "onnx/ops/result_like.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

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

const OperatorRow quantized_convolution_rows[] = {
    {"ConvInteger", 10, conv_integer},
    {"QLinearConv", 10, qlinear_conv},
    {"QLinearConv", 1, qlinear_conv, nullptr, "clprim"},
    {"QLinearGemm", 1, qlinear_gemm, nullptr, "clprim"},
};

}  // namespace

std::span<const OperatorRow> quantized_convolution_operators() { return quantized_convolution_rows; }

}  // namespace clprim::onnx
