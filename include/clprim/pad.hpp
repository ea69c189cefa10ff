// Padding, with a tensor's own elements or with a number.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class PadMode {
    reflect,     // mirrored at the first and the last element, which are not repeated: less padding than elements
    replicate,   // the first and the last element
};

// Elements added before the first element of each of the last `axes` axes, which are spatial. What is added behind the
// last one follows from the output's size. Negative: so many elements are left out.
struct Padding {
    std::array<std::int64_t, 3> before{0, 0, 0};   // of the axes in their order
    int axes = 1;
    PadMode mode = PadMode::reflect;
};

// x and y are [N, C, spatial...] of one dtype, both row-major or both channels_last. Any dtype.
// Throws InvalidArgument for shapes, layouts or dtypes that do not fit, and for more padding than a mirror holds.
void pad(Queue& queue, const Tensor& x, const Tensor& y, const Padding& padding);

// grad_input = sum of grad_output over the elements that were copied from each. Floating-point and complex dtypes;
// summed by the owner in a fixed order: the same bits every run.
void pad_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Padding& padding);

// y is one element everywhere, given as its bytes in memory, but for x, whose first element lies at position `before`
// of each axis. Negative: so many elements are left out. What y has no room for behind is left out, too. Any strides.
// Throws InvalidArgument for different dtypes or numbers of dimensions, and for a `before` of another length.
void pad_constant(Queue& queue, const Tensor& x, const Tensor& y, const Dims& before,
                  std::span<const std::byte> element);

}  // namespace clprim
CLPRIM_API_END
