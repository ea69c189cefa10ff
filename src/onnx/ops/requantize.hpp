// Sums of products of integers, quantised again.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

// A zero point or scale, input `i`, of one element, or with one along `axis` of `shape`, in the shape in which it
// broadcasts.
Tensor along_axis(const Call& call, std::size_t i, std::size_t axis, const Dims& shape);

// Where a result finds its scales and its zero point.
struct ScaleInputs {
    std::size_t a, b, y, y_zero;
    std::size_t a_axis, b_axis;              // of the result, along which scales may vary
};

// Output 0 is y = saturate(round(sum * (a_scale * b_scale / y_scale)) + zero).
void requantize(Call& call, const Tensor& sum, const ScaleInputs& at);

}  // namespace clprim::onnx
