// Bytes for real numbers by a scale and a zero point that the numbers themselves give: the range of x, widened to hold
// 0, over 0..255.
//
//   scale = (high - low) / 255
//   zero  = clamp(round(-low / scale), 0, 255)
//   y     = clamp(round(x / scale) + zero, 0, 255)
//
// Of zeros alone, and of no numbers, the scale is 1. Halves go to even; what is no number counts as 0 in the range.
#pragma once

#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

namespace clprim {

// x float32 and y uint8 of one shape and the same strides, dense; scale of float32 and zero of uint8 are one element.
// Up to some ten thousand numbers take one launch, more two. Throws InvalidArgument for what does not fit.
void quantize_dynamically(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& zero);

}  // namespace clprim
