// MatMulInteger, QLinearMatMul, QLinearAdd. Products of integers are summed exactly, modulo 2^32.
#include <clprim/integer_add.hpp>
#include <clprim/integer_matmul.hpp>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/quantize.hpp"
#include "onnx/ops/requantize.hpp"
#include "onnx/ops/result_like.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

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

// A fusion's product of x with a constant matrix, times a scale and perhaps a factor of it, plus a bias of columns.
void matmul_integer_to_float(Call& call)
{
    const Dims &a = call.shape(0), &b = call.shape(1), &scale = call.shape(4);
    const bool fits = call.type(4) == ElementType::float32 && b.size() == 2 && scale.size() <= a.size() &&
                      (scale.product() == 1 || (scale.product() == b[1] && scale.back() == b[1])) &&
                      (!call.has(6) || (call.type(6) == ElementType::float32 && call.shape(6).product() == 1 &&
                                        call.shape(6).size() <= a.size()));
    if (fits) {
        const auto optional_line = [&](std::size_t i) { return call.has(i) ? call.contiguous(i) : Tensor(); };
        const IntegerScales scales{call.contiguous(4), optional_line(5), optional_line(6)};
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

void qlinear_matmul(Call& call)
{
    const Tensor sum = integer_product(call, {0, 2, 3, 5});
    const std::size_t last = sum.dim() ? sum.dim() - 1 : 0;
    requantize(call, sum, {1, 4, 6, 7, last ? last - 1 : 0, last});
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
    const IntegerScales scales{line_of(call, p.b_scale), p.bias.is_none() ? Tensor() : line_of(call, p.bias),
                               line_of(call, p.a_scale)};
    const QuantizedLeft left{p.a, p.a_zero};
    const Tensor a = p.a.device(call.queue());
    if (!a.is_contiguous() || !scales.scale.defined() || (!p.bias.is_none() && !scales.offset.defined()))
        return std::nullopt;
    const auto product = product_of_bytes(call, {none, none, b, b_zero}, scales, &left);
    return product ? std::optional(Value(*product)) : std::nullopt;
}

std::span<const OperatorRow> quantized_product_operators() { return quantized_product_rows; }

}  // namespace clprim::onnx
