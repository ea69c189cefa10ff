// Sums of quantised tensors, quantised again:
//
//   y = clamp(round(((a - a_zero) a_scale + (b - b_zero) b_scale) / y_scale) + y_zero, low, high), halves to even
#pragma once

#include <cstdint>

#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct ScaledBytes {
    Tensor values;   // int8 or uint8, any strides
    Tensor scale;    // float32, one element
    Tensor zero;     // of the values' dtype, one element; undefined: 0
};

// a and b of one dtype broadcast to y; low and high lie within y's dtype. Throws InvalidArgument for what does not fit.
void integer_add(Queue& queue, const ScaledBytes& a, const ScaledBytes& b, const ScaledBytes& y, std::int32_t low,
                 std::int32_t high);

}  // namespace clprim
CLPRIM_API_END
