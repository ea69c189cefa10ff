// Convolutions of eight-bit integers with exact sums in int32, modulo 2^32, and what follows them in quantised models:
//
//   s[n, o, p] = bias[o] + sum over c, t of
//                  (w[o, c, t] - w_zero[o]) (x[n, g(o) C + c, p stride - pad + t dilation] - x_zero)
//   y          = s, s scale[o] + y_zero[o], or clamp(round(s scale[o]) + y_zero, low, high), halves to even
//
// A place outside of x counts as x_zero, so it adds nothing.
#pragma once

#include <cstdint>
#include <limits>

#include <clprim/conv.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct IntegerConv {
    ConvOptions options;     // of it stride, pad_begin, pad_end, dilation, groups and prepared: of w, w_zero and bias
    Tensor x_zero;           // of x's dtype, one element; undefined: 0
    Tensor w_zero;           // of w's dtype, contiguous, one element or one for each output channel; undefined: 0
    Tensor bias;             // int32, contiguous, one for each output channel; undefined: none
    Tensor scale;            // where y is not int32: float32, contiguous, one element or one for each output channel
    Tensor y_zero;           // of y's dtype, one element, of float32 as many as of scale; undefined: 0
    Tensor factor;           // of float32 y alone: float32, one element, which scale is multiplied by first
    // Where y is int8 or uint8:
    std::int32_t low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
};

// x (N, C, spatial...) and w (O, C / groups, kernel...) of int8 or uint8 each, y (N, O, spatial...) of int32, float32,
// int8 or uint8, one to three spatial axes, any strides; channels_last x and y are fast. Throws InvalidArgument for
// shapes and dtypes that do not fit.
//
// Method: CPUs gather patches as int16 with zero points taken off, a block of pixels at a time, and multiply them with
// panels of weights in pairs (x86: vpmaddwd), or as bytes where prepared weights fit (AMX, VNNI); depthwise ones go
// along channels. GPUs gather channels in sixteens for their matrix engines, or write the patches and multiply matrices
// (clprim/integer_matmul.hpp); those of several groups are computed one element a work-item.
void integer_conv(Queue& queue, const Tensor& x, const Tensor& w, const Tensor& y, const IntegerConv& conv);

}  // namespace clprim
CLPRIM_API_END
