// Softmax and log-softmax along one axis, forward and backward. Computed in float32 (float64 for float64).
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// y = softmax(x) along `axis`; with `log`, its logarithm. Contiguous floating-point tensors of one shape; y may be
// float32 where x is float16 or bfloat16. A row of NaN or of -inf gives NaN. Throws InvalidArgument.
void softmax(Queue& queue, const Tensor& x, const Tensor& y, int axis, bool log = false);

// grad_input from grad_output and the forward's result y, which share a dtype.
struct SoftmaxBackward {
    Tensor grad_output, y, grad_input;
    int axis = -1;
    bool log = false;
};
void softmax_backward(Queue& queue, const SoftmaxBackward& problem);

}  // namespace clprim
CLPRIM_API_END
