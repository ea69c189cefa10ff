// Sampling of pictures and volumes at given points (spatial transformers, Jaderberg et al. 2015).
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class SampleMode { bilinear = 0, nearest = 1, bicubic = 2 };      // bicubic for two axes only
enum class SamplePadding { zeros = 0, border = 1, reflection = 2 };

struct GridSampling {
    SampleMode mode = SampleMode::bilinear;
    SamplePadding padding = SamplePadding::zeros;
    bool align_corners = false;   // whether -1 and 1 are the centres of the outermost elements or their outer edges
};

// x [N, C, (D,) H, W], grid [N, (D',) H', W', 2 or 3] with coordinates x, y(, z) in [-1, 1], y [N, C, (D',) H', W'].
// All contiguous, of one floating-point dtype. Throws InvalidArgument.
void grid_sample(Queue& queue, const Tensor& x, const Tensor& grid, const Tensor& y, const GridSampling& how);

// grad_input and grad_grid are optional each. grad_input has x's shape and float32 (float64 for float64): sums of many
// terms. The same bits every run.
struct GridSampleBackward {
    Tensor grad_output, x, grid, grad_input, grad_grid;
    GridSampling how;
};
void grid_sample_backward(Queue& queue, const GridSampleBackward& problem);

}  // namespace clprim
CLPRIM_API_END
