#include "onnx/ops/support.hpp"

#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/context.hpp>
#include <clprim/reduce.hpp>

#include "onnx/ops/result_like.hpp"

namespace clprim::onnx {

Dims broadcast(const Dims& a, const Dims& b)
{
    const std::size_t dims = std::max(a.size(), b.size());
    Dims result(dims, 1);
    for (std::size_t i = 0; i < dims; ++i) {
        const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
        require(x == y || x == 1 || y == 1, "shapes ", to_string(a), " and ", to_string(b), " do not broadcast");
        result[dims - 1 - i] = x == 1 ? y : x;
    }
    return result;
}

Dims broadcast_inputs(const Call& call)
{
    Dims shape;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        if (call.has(i))
            shape = broadcast(shape, call.shape(i));
    return shape;
}

Dims channels_last_strides(const Dims& shape)
{
    Dims strides(shape.size(), 1);
    std::int64_t stride = shape[1];
    for (std::size_t d = shape.size(); d-- > 2; stride *= shape[d])
        strides[d] = stride;
    strides[0] = stride;
    return strides;
}

std::int64_t last_integer(const Call& call, const Tensor& integers)
{
    std::int64_t last = 0;
    const auto at = static_cast<std::size_t>(integers.offset + integers.numel() - 1);
    call.queue().read(*integers.memory, at * sizeof(last), &last, sizeof(last));
    return last;
}

Tensor converted(const Call& call, const Tensor& x, DataType type)
{
    if (x.dtype == type)
        return x;
    const Tensor result = call.allocate(x.shape, type);
    copy(call.queue(), x, result);
    return result;
}

Tensor summed_to(const Call& call, const Tensor& x, const Dims& shape)
{
    if (x.shape == shape)
        return x;
    call.check(broadcast(x.shape, shape) == x.shape, "shape ", to_string(shape), " does not broadcast to ",
               to_string(x.shape));
    const Tensor sum = call.allocate(shape, x.dtype);
    const Input input(x);
    reduce(call.queue(), reduce_row("sum"), {{&input, 1}, {&sum, 1}, {}, x.dtype});
    return sum;
}

Tensor result_like(const Call& call, std::span<const Tensor> inputs, const Dims& shape, DataType dtype)
{
    const Tensor* same = nullptr;
    bool channels_last = false;
    for (const Tensor& x : inputs)
        if (!same && x.shape == shape && (x.is_non_overlapping_and_dense() || x.dim() >= 3))
            same = &x;
    if (same && same->dim() >= 3)
        channels_last = !same->slice(0, 0, std::min<std::int64_t>(1, same->size(0))).is_contiguous() &&
                        same->stride(1) == 1;
    if (const Tensor placed = call.placed(shape, dtype, channels_last); placed.defined())
        return placed;
    Tensor y = call.allocate(shape, dtype);
    if (same && same->is_non_overlapping_and_dense())
        y.strides = same->strides;
    else if (channels_last)
        y.strides = channels_last_strides(shape);
    return y;
}

void pointwise_output(Call& call, std::string_view row, std::span<const Tensor> inputs, DataType type,
                      std::span<const Scalar> scalars)
{
    Dims shape;
    for (const Tensor& input : inputs)
        shape = broadcast(shape, input.shape);
    const Tensor y = result_like(call, inputs, shape, type);
    call.output(0, Value(y));
    if (y.numel() == 0)
        return;
    const std::vector<Input> operands(inputs.begin(), inputs.end());
    pointwise(call.queue(), pointwise_row(row), {operands, std::span(&y, 1), scalars, inputs[0].dtype});
}

}  // namespace clprim::onnx
