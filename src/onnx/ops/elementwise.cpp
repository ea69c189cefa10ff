#include "onnx/ops/elementwise.hpp"

#include <clprim/narrow.hpp>

#include "onnx/ops/narrow_type.hpp"

namespace clprim::onnx {

void check_type(const Call& call, std::size_t i, unsigned accepts)
{
    const ElementType type = call.type(i);
    call.check(type != ElementType::string && !is_narrow(type) && (accepts & class_of(storage_type(type))), "input ", i,
               " is ", name_of(type), ", which this operator does not take");
}

void check_types(const Call& call, unsigned accepts)
{
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        check_type(call, i, accepts);
        call.check(call.type(i) == call.type(0), "input ", i, " is ", name_of(call.type(i)), ", expected ",
                   name_of(call.type(0)), " as input 0");
    }
}

Tensor as_floating(const Call& call, std::size_t i)
{
    if (!is_narrow(call.type(i))) {
        check_type(call, i, floating);
        return call.tensor(i);
    }
    const NarrowFormat* format = narrow_format(call.type(i));
    call.check(format && format->mantissa >= 0, "input ", i, " is ", name_of(call.type(i)),
               ", expected floating point");
    const Tensor source = call.tensor(i), result = call.allocate(source.shape, DataType::float32);
    widen(call.queue(), source, *format, result);
    return result;
}

std::vector<bool> reduced_axes(const Call& call)
{
    const std::size_t dims = call.shape(0).size();
    const auto axes = call.ints_of(1, "axes");
    std::vector<bool> over(dims, axes.empty() && !call.integer_attribute("noop_with_empty_axes", 0));
    for (const std::int64_t axis : axes)
        over[call.axis(axis, dims)] = true;
    return over;
}

void pointwise_output(Call& call, const ElementwiseCall& elementwise)
{
    Dims shape;
    const Tensor* same = nullptr;                    // an operand whose layout the output takes over
    for (const Input& input : elementwise.inputs)
        if (!input.is_value())
            shape = broadcast(shape, input.tensor.shape);
    for (const Input& input : elementwise.inputs)
        if (!same && !input.is_value() && input.tensor.shape == shape && input.tensor.is_non_overlapping_and_dense())
            same = &input.tensor;
    Tensor y = call.allocate(shape, storage_type(elementwise.type));
    if (same)
        y.strides = same->strides;
    call.output(elementwise.output, Value(y, elementwise.type));
    pointwise(call.queue(), pointwise_row(elementwise.row),
              {elementwise.inputs, {&y, 1}, elementwise.scalars, elementwise.common});
}

}  // namespace clprim::onnx
