// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. Products of integers are summed exactly, modulo 2^32.
#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/integer_matmul.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/narrow_type.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/quantize.hpp"
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

// Where the matrices of a product find their inputs.
struct MatrixInputs {
    std::size_t a, a_zero, b, b_zero;
};

// The zero points at `i`, if they are one number or one for each of `lines`.
bool are_for_lines(const Call& call, std::size_t i, std::int64_t lines)
{
    return !call.has(i) || call.tensor(i).numel() == 1 ||
           (call.shape(i).size() <= 1 && call.tensor(i).numel() == lines);
}

// Matrices of a times one matrix b are one taller product, of the bytes as they lie.
std::optional<Tensor> product_of_bytes(const Call& call, const MatrixInputs& at)
{
    const Dims &a_shape = call.shape(at.a), &b_shape = call.shape(at.b);
    if (a_shape.size() < 2 || b_shape.size() != 2 || a_shape.back() != b_shape[0])
        return std::nullopt;
    const Tensor a = call.contiguous(at.a), b = call.tensor(at.b);
    const std::int64_t k = b_shape[0], n = b_shape[1], rows = k == 0 ? 0 : a.numel() / k;
    const auto is_byte = [](const Tensor& t) { return t.dtype == DataType::int8 || t.dtype == DataType::uint8; };
    const auto fits = [&](std::size_t zero, const Tensor& of) {
        return !call.has(zero) || call.tensor(zero).dtype == of.dtype;
    };
    if (rows == 0 || !is_byte(a) || !is_byte(b) || !fits(at.a_zero, a) || !fits(at.b_zero, b) ||
        !are_for_lines(call, at.a_zero, a_shape.size() == 2 ? rows : 1) || !are_for_lines(call, at.b_zero, n))
        return std::nullopt;
    IntegerZeros zeros;
    if (call.has(at.a_zero))
        zeros.a = call.contiguous(at.a_zero);
    if (call.has(at.b_zero))
        zeros.b = call.contiguous(at.b_zero);
    if (!call.has(at.b_zero) || call.prepared(at.b_zero))
        zeros.prepared_b = call.prepared(at.b);
    Dims shape = a_shape;
    shape[shape.size() - 1] = n;
    const Tensor c = call.allocate(shape, DataType::int32);
    integer_matmul(call.queue(), a.reshape({rows, k}), b, c.reshape({rows, n}), zeros);
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

// The largest |x - zero| that an 8-bit input can have.
std::int64_t reach(const Call& call, std::size_t i, std::size_t zero)
{
    const bool is_signed = call.type(i) == ElementType::int8;
    if (!call.has(zero))
        return is_signed ? 128 : 255;
    if (!call.input(zero).on_host())
        return 255;
    const IntegerRange range = integer_range(call.type(i));
    std::int64_t result = 0;
    for (const std::int64_t z : call.ints(zero))
        result = std::max({result, z - range.low, range.high - z});
    return result;
}

struct ConvInputs {
    std::size_t x, x_zero, w, w_zero, bias;
};

// Sums of floats that stay below 2^24 are exact in any order: the channels are convolved in float32 in as many parts as
// that takes, and the parts are added as integers.
Tensor integer_convolution(const Call& call, const ConvInputs& at)
{
    const Dims &x_shape = call.shape(at.x), &w_shape = call.shape(at.w);
    call.check(x_shape.size() >= 3 && x_shape.size() <= 5 && w_shape.size() == x_shape.size(), "x has shape ",
               to_string(x_shape), " and w ", to_string(w_shape), ", expected N, C and one to three spatial axes");
    const Windows window = windows(call, x_shape, spatial_sizes(call, w_shape));
    ConvOptions options;
    options.stride = window.stride;
    options.dilation = window.dilation;
    options.pad_begin = window.pad_begin;
    options.pad_end = window.pad_end;
    options.groups = call.integer_attribute("group", 1);
    const std::int64_t channels = w_shape[1], groups = options.groups;
    call.check(groups > 0 && x_shape[1] == channels * groups && w_shape[0] % groups == 0, "x has ", x_shape[1],
               " channels, w ", to_string(w_shape), " and group is ", groups);
    Dims shape = conv_output_shape(x_shape, w_shape, options);
    for (const std::int64_t size : shape)
        call.check(size >= 0, "the result would have shape ", to_string(shape));

    const std::int64_t largest = reach(call, at.x, at.x_zero) * reach(call, at.w, at.w_zero);
    const std::int64_t taps = window.kernel.product(),
                       limit = (std::int64_t{1} << 24) / std::max<std::int64_t>(largest, 1);
    const bool wide = taps > limit && call.queue().device().fp64;
    call.check(taps <= limit || wide, "a kernel of ", taps,
               " taps needs float64 for exact sums, which this device lacks");
    const DataType type = wide ? DataType::float64 : DataType::float32;
    const std::int64_t part = wide ? channels : std::max<std::int64_t>(1, std::min(channels, limit / taps));

    const Tensor x = centred(call, at.x, at.x_zero, 1, type), w = centred(call, at.w, at.w_zero, 0, type);
    // [N, groups, channels, spatial...], so that a part of every group's channels can be cut out.
    Dims grouped{x_shape[0], groups, channels}, cut = x_shape;
    for (std::size_t d = 2; d < x_shape.size(); ++d)
        grouped.push_back(x_shape[d]);
    const Tensor y = call.allocate(shape, type), sum = call.allocate(shape, DataType::int32);
    for (std::int64_t begin = 0; begin < channels || begin == 0; begin += part) {
        const std::int64_t end = std::min(channels, begin + part);
        Tensor x_part = x, w_part = w;
        if (part < channels) {
            const Tensor slice = x.reshape(grouped).slice(2, begin, end);
            cut[1] = groups * (end - begin);
            x_part = call.allocate(cut, type);
            copy(call.queue(), slice, x_part.reshape(slice.shape));
            Dims w_cut = w_shape;
            w_cut[1] = end - begin;
            w_part = call.allocate(w_cut, type);
            copy(call.queue(), w.slice(1, begin, end), w_part);
        }
        conv_forward(call.queue(), x_part, w_part, {}, y, options);
        const Tensor inputs[] = {y, sum};
        pointwise(call.queue(), {inputs, begin ? 2u : 1u}, {&sum, 1}, {},
                  begin ? "y0 = (int)x0 + x1;" : "y0 = (int)x0;");
    }
    if (at.bias && call.has(at.bias)) {
        call.check(call.type(at.bias) == ElementType::int32, "the bias is ", name_of(call.type(at.bias)),
                   ", expected int32");
        const Tensor inputs[] = {sum, along_axis(call, at.bias, 1, shape)};
        pointwise(call.queue(), inputs, {&sum, 1}, {}, "y0 = x0 + x1;");
    }
    return sum;
}

void conv_integer(Call& call) { call.output(0, Value(integer_convolution(call, {0, 2, 1, 3, 0}))); }

void qlinear_conv(Call& call)
{
    requantize(call, integer_convolution(call, {0, 2, 3, 5, 8}), {1, 4, 6, 7, 1, 1});
}

const OperatorRow rows[] = {
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"ConvInteger", 10, conv_integer},
    {"QLinearConv", 10, qlinear_conv},
};

}  // namespace

std::span<const OperatorRow> quantized_product_operators() { return rows; }

}  // namespace clprim::onnx
