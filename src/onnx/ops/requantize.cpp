#include "onnx/ops/requantize.hpp"

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/quantize.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

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

}  // namespace clprim::onnx
