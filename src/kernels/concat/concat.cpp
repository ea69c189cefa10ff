#include <clprim/concat.hpp>

#include <kernels/index/move.hpp>
#include <core/operands.hpp>

namespace clprim {

void concat(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out)
{
    detail::check_operands("concat", {{"out", out}});
    require(axis < out.dim(), "concat: axis ", axis, " of a tensor with ", out.dim(), " dimensions");
    std::int64_t begin = 0;
    for (const Tensor& input : inputs) {
        input.check("concat", "an input");
        Dims expected = out.shape;
        expected[axis] = input.dim() == out.dim() ? input.size(axis) : 0;
        require(input.shape == expected, "concat: input of shape ", to_string(input.shape), " does not fit ",
                to_string(out.shape), " along axis ", axis);
        begin += input.size(axis);
    }
    require(begin == out.size(axis), "concat: inputs add up to ", begin, " along axis ", axis, ", output has ",
            out.size(axis));
    begin = 0;
    for (const Tensor& input : inputs) {
        move_elements(queue, out.slice(axis, begin, begin + input.size(axis)), input);
        begin += input.size(axis);
    }
}

}  // namespace clprim
