// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
#include <limits>

#include <clprim/index.hpp>

#include "kernels/integer/dynamic.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/narrow_type.hpp"
#include "onnx/ops/quantize.hpp"
#include "onnx/ops/result_like.hpp"

namespace clprim::onnx {

IntegerRange integer_range(ElementType type)
{
    const NarrowFormat* format = narrow_format(type);
    const std::int64_t bits = format ? format->bits : static_cast<std::int64_t>(8 * size_of(storage_type(type)));
    if (bits == 0 || bits > 32)
        return {};
    const std::int64_t count = std::int64_t{1} << bits;
    return is_signed(storage_type(type)) ? IntegerRange{-count / 2, count / 2 - 1} : IntegerRange{0, count - 1};
}

namespace {

// Scales and zero points as they broadcast to x: one for all, one per slice of an axis, or one per block along it.
// Where blocks divide the axis, x is seen with the axis cut in two.
struct Granularity {
    std::size_t axis = 0;
    std::int64_t block = 0;                  // 0: not blocked
    Dims x, parameter;                       // shapes in which they broadcast
    bool spread = false;                     // blocks do not divide the axis: parameters are repeated
};

Granularity granularity(const Call& call)
{
    const Dims &x = call.shape(0), &scale = call.shape(1);
    Granularity result;
    result.x = x;
    for (const std::size_t i : {2u})
        if (call.has(i))
            call.check(call.shape(i) == scale || (call.input(i).numel() == 1 && scale.product() == 1),
                       "the zero point has shape ", to_string(call.shape(i)), ", expected that of the scale, ",
                       to_string(scale));
    result.block = call.integer_attribute("block_size", 0);
    call.check(result.block >= 0, "block_size is ", result.block);
    if (scale.product() == 1 && !result.block)
        return result;
    const auto dims = static_cast<std::int64_t>(x.size());
    const std::int64_t given = call.integer_attribute("axis", 1);
    result.axis = call.axis(dims == 1 ? 0 : given, x.size());
    const std::int64_t size = x[result.axis];
    if (!result.block) {
        call.check(scale.size() == 1 && scale[0] == size, "the scale has shape ", to_string(scale),
                   ", expected one, or ", size, " for axis ", result.axis, " of x");
        result.parameter = Dims(x.size(), 1);
        result.parameter[result.axis] = size;
        return result;
    }
    Dims expected = x;
    expected[result.axis] = size / result.block + (size % result.block != 0);
    call.check(scale == expected, "the scale has shape ", to_string(scale), ", expected ", to_string(expected),
               " for blocks of ", result.block);
    result.spread = size % result.block != 0;
    if (result.spread) {
        result.parameter = x;
        return result;
    }
    result.x = result.parameter = {};
    for (std::size_t d = 0; d < x.size(); ++d) {
        result.x.push_back(expected[d]);
        result.parameter.push_back(expected[d]);
        if (d == result.axis) {
            result.x.push_back(result.block);
            result.parameter.push_back(1);
        }
    }
    return result;
}

// x as it lies and a result laid out like it where there is one scale for all, else both with the axes that scales
// broadcast along.
struct Elements {
    Tensor x, y;
};

Elements elements(Call& call, const Granularity& granularity, Tensor x, ElementType type)
{
    if (!is_narrow(type) && granularity.parameter.size() == 0 && granularity.x == call.shape(0) &&
        x.is_non_overlapping_and_dense()) {
        const Tensor y = result_like(call, {&x, 1}, x.shape, storage_type(type));
        call.output(0, Value(y, type));
        return {x, y};
    }
    if (!x.is_contiguous())
        x = call.contiguous(0);
    const Tensor y = call.output_tensor(0, call.shape(0), type);
    return {x.reshape(granularity.x), y.reshape(granularity.x)};
}

// A scale or zero point in its shape to broadcast; narrow floats as float32.
Tensor parameter(const Call& call, std::size_t i, const Granularity& granularity)
{
    Tensor tensor = call.contiguous(i);
    if (is_narrow(call.type(i)) && narrow_format(call.type(i))->mantissa >= 0)
        tensor = widened(call, i, DataType::float32);
    if (!granularity.spread)
        return tensor.reshape(granularity.parameter);
    const std::int64_t size = granularity.parameter[granularity.axis];
    Value index = Value::zeros(ElementType::int64, {size});
    for (std::int64_t k = 0; k < size; ++k)
        index.mutable_host<std::int64_t>()[static_cast<std::size_t>(k)] = k / granularity.block;
    const Tensor result = call.allocate(granularity.parameter, tensor.dtype);
    index_select(call.queue(), tensor, granularity.axis, index.device(call.queue()), result);
    return result;
}

ElementType type_attribute(const Call& call, std::string_view name, ElementType otherwise)
{
    const std::int64_t type = call.integer_attribute(name, 0);
    call.check(type >= 0 && type <= static_cast<std::int64_t>(ElementType::int2), name, " is ", type,
               ", which is no element type");
    return type ? static_cast<ElementType>(type) : otherwise;
}

// In which type x is divided by the scale; the quotient is rounded to it.
ElementType division_type(const Call& call)
{
    const ElementType scale = call.type(1);
    const bool real = scale == ElementType::float16 || scale == ElementType::bfloat16 || scale == ElementType::float32;
    // A division of a wider x keeps its digits, as numpy's promotion does.
    const ElementType promoted = real && call.type(0) == scale ? scale : ElementType::float32;
    return type_attribute(call, "precision", promoted);
}

void quantize(Call& call)
{
    const ElementType zero_type = call.has(2) ? call.type(2) : ElementType::undefined;
    const ElementType type = type_attribute(call, "output_dtype", call.has(2) ? zero_type : ElementType::uint8);
    call.check(!call.has(2) || type == zero_type, "output_dtype is ", name_of(type), ", but the zero point is ",
               name_of(zero_type));
    const Granularity sizes = granularity(call);
    const ElementType division = division_type(call);
    const char* rounded = division == ElementType::float16    ? "round_float16(q)"
                          : division == ElementType::bfloat16 ? "round_bfloat16(q)"
                                                              : "q";
    const auto [x, target] = elements(call, sizes, call.tensor(0), type);
    std::vector<Tensor> inputs{x, parameter(call, 1, sizes)};
    if (call.has(2))
        inputs.push_back(parameter(call, 2, sizes));
    const std::string quotient = detail::concat("float q = (float)x0 / (float)x1; q = ", rounded, ";");
    if (const IntegerRange range = integer_range(type);
        range.high > 0 && (!is_narrow(type) || narrow_format(type)->mantissa < 0)) {
        // Beyond 2^18 everything is out of range for 16 bits, whatever the zero point. A choice is one instruction,
        // unlike fmax, and takes NaN for the lowest as well.
        const std::string code = detail::concat(
            quotient, "q = rint(q); q = q > -262144.0f ? q : -262144.0f; q = q < 262144.0f ? q : 262144.0f; ",
            "y0 = clamp((int)q", call.has(2) ? " + (int)x2" : "", ", w0, w1);");
        const Scalar bounds[] = {range.low, range.high};
        const DataType types[] = {DataType::int32, DataType::int32};
        return pointwise(call.queue(), inputs, {&target, 1}, bounds, code, types);
    }
    call.check(is_narrow(type), "quantization to ", name_of(type), " is not defined");
    const Tensor real = call.allocate(sizes.x, DataType::float32);
    pointwise(call.queue(), inputs, {&real, 1}, {},
              detail::concat(quotient, "y0 = q", call.has(2) ? " + (float)x2;" : ";"));
    narrow(call.queue(), real, *narrow_format(type), {.saturate = call.integer_attribute("saturate", 1) != 0}, target);
}

void dequantize(Call& call)
{
    const Granularity sizes = granularity(call);
    const ElementType scale = call.type(1) == ElementType::float8e8m0 ? ElementType::float32 : call.type(1);
    const ElementType type = type_attribute(call, "output_dtype", scale);
    call.check(!call.has(2) || call.type(2) == call.type(0), "the zero point is ",
               name_of(call.has(2) ? call.type(2) : type), ", expected ", name_of(call.type(0)));
    const bool real = is_narrow(call.type(0)) && narrow_format(call.type(0))->mantissa >= 0;
    const auto [x, y] = elements(call, sizes, real ? widened(call, 0, DataType::float32) : call.tensor(0), type);
    std::vector<Tensor> inputs{x, parameter(call, 1, sizes)};
    if (call.has(2))
        inputs.push_back(parameter(call, 2, sizes));
    pointwise(call.queue(), inputs, {&y, 1}, {},
              call.has(2) ? "y0 = (float)(x0 - x2) * (float)x1;" : "y0 = (float)x0 * (float)x1;");
}

void dynamic_quantize(Call& call)
{
    call.check(call.type(0) == ElementType::float32, "x is ", name_of(call.type(0)), ", expected float32");
    Tensor x = call.tensor(0);
    if (!x.is_non_overlapping_and_dense())
        x = call.contiguous(0);
    Tensor y = call.allocate(x.shape, DataType::uint8);
    y.strides = x.strides;
    call.output(0, Value(y));
    quantize_dynamically(call.queue(), x, y, call.output_tensor(1, {}, ElementType::float32),
                         call.output_tensor(2, {}, ElementType::uint8));
}

const OperatorRow quantize_rows[] = {
    {"QuantizeLinear", 10, quantize},
    {"DequantizeLinear", 10, dequantize},
    {"DynamicQuantizeLinear", 11, dynamic_quantize},
};

}  // namespace

std::span<const OperatorRow> quantize_operators() { return quantize_rows; }

}  // namespace clprim::onnx
