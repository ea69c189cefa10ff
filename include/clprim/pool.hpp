// Maximum and average pooling over 1, 2 or 3 spatial axes, sliding or adaptive, forward and backward.
//
// x is [N, C, spatial...] and y [N, C, spatial...] with the same memory format: both row-major or both channels_last.
// Gradients are gathered by their owner: the same bits every run. Errors: InvalidArgument.
#pragma once

#include <array>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Windows per spatial axis (axes beyond the tensor's are ignored). `padding` is what precedes the first element; what
// follows the last one is settled by the output's size, so ceil_mode needs nothing more. `padding_end` matters where
// padding is counted; negative: as `padding`.
struct PoolWindow {
    std::array<int, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
    bool adaptive = false;               // element o covers [floor(o in / out), ceil((o + 1) in / out)) instead
    bool count_include_pad = true;       // average: padding counts as zeros
    int divisor_override = 0;            // average: divide by this instead, if not 0
    std::array<int, 3> padding_end{-1, -1, -1};
};

// y = maximum of each window; a NaN wins. indices (optional, int64, shape of y): its position in the input plane,
// counted row-major over the spatial axes. Any real dtype.
void max_pool(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& indices, const PoolWindow& window);

// grad_input = sum of grad_output over the windows whose index names the element. Floating-point dtypes.
void max_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& indices, const Tensor& grad_input,
                       const PoolWindow& window);

// y = sum of each window / number of its elements. Floating-point dtypes and int64 (truncating).
void average_pool(Queue& queue, const Tensor& x, const Tensor& y, const PoolWindow& window);
void average_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input,
                           const PoolWindow& window);

// The inverse of max_pool: y is 0 but for y[indices[i]] = x[i] in each plane; of equal indices the last one wins.
// Contiguous tensors; an index outside the plane throws IndexError at the next synchronisation.
void max_unpool(Queue& queue, const Tensor& x, const Tensor& indices, const Tensor& y);

// Maximum over windows of `kernel` elements placed by random steps; samples [N, C, axes] in [0, 1). Graham 2014.
// Contiguous, two or three axes; y and indices as max_pool's.
void fractional_max_pool(Queue& queue, const Tensor& x, const Tensor& samples, std::array<int, 3> kernel,
                         const Tensor& y, const Tensor& indices);
void fractional_max_pool_backward(Queue& queue, const Tensor& grad_output, const Tensor& indices,
                                  const Tensor& grad_input);

}  // namespace clprim
CLPRIM_API_END
