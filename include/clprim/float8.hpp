// Numbers of eight bits: codes to float32 and back. Every code is exact in float32; the way back rounds to nearest,
// ties to even, and what lies beyond the largest number becomes infinity (e5m2) or NaN (the formats without infinity).
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class Float8 { e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e8m0fnu };
const char* name_of(Float8 format);

// codes: uint8, numbers: float32; both contiguous, of one shape.
void float8_to_float32(Queue& queue, Float8 format, const Tensor& codes, const Tensor& numbers);
// `saturate`: what lies beyond the largest number of e4m3fn, infinity too, becomes that number. Of e4m3fn alone.
void float32_to_float8(Queue& queue, Float8 format, const Tensor& numbers, const Tensor& codes, bool saturate = false);

}  // namespace clprim
CLPRIM_API_END
