// Resampling (interpolation) over 1, 2 or 3 spatial axes, forward and backward.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// nearest: floor(o scale); nearest_exact: floor((o + 1/2) scale); linear: 2 taps; cubic: 4 taps (Keys 1981, a = -0.75).
// antialias_*: triangle, cubic (a = -0.5) and Lanczos-3 filters widened by the scale when shrinking.
enum class Filter {
    nearest, nearest_exact, linear, cubic, antialias_linear, antialias_cubic, antialias_lanczos
};

struct Resampling {
    Filter filter = Filter::linear;
    bool align_corners = false;                  // corners map to corners, else areas to areas
    std::array<double, 3> scale_factors{};       // output / input per spatial axis; 0: from the sizes
};

// x [N, C, spatial...] to y [N, C, spatial...], both row-major or both channels_last, of one dtype: floating-point, or
// uint8 (rounded). Backward: floating-point; each element gathers, the same bits every run. Throws InvalidArgument.
void resample(Queue& queue, const Tensor& x, const Tensor& y, const Resampling& how);
void resample_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Resampling& how);

// Resampling along one axis by taps that the caller gives: output o is the sum of weights[o T + t] x[indices[o T + t]]
// over its T taps. An output whose first index is negative becomes `fill`. Without weights (and one tap) elements are
// moved as they are.
struct AxisTaps {
    std::size_t taps = 1;
    std::vector<std::int32_t> indices;           // in [0, size of x), or negative: see above
    std::vector<double> weights;
    double fill = 0;
};

// y may be of a floating-point dtype of its own, so that several axes in turn round once; integers are rounded to the
// nearest and saturate. Moving takes every dtype, the same for x and y. Both contiguous, with equal shapes but for
// `axis`. Throws InvalidArgument. The table of taps is copied aside: nothing waits.
void resample_axis(Queue& queue, const Tensor& x, const Tensor& y, std::size_t axis, const AxisTaps& taps);

// x [..., H, W] to y [..., H factor_y, W factor_x], every element repeated: nearest neighbours at a whole scale. Every
// dtype, the same for x and y; both contiguous. Throws InvalidArgument.
void resample_repeat(Queue& queue, const Tensor& x, const Tensor& y, std::int64_t factor_y, std::int64_t factor_x);

}  // namespace clprim
CLPRIM_API_END
