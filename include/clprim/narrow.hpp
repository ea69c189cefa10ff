// Conversions to and from number formats of eight bits and fewer, one byte per element.
//
// Floating-point formats are kept as their bit patterns, integers of 2 and 4 bits as their values in int8 or uint8.
// Formats: OCP 8-bit floating point (Micikevicius et al., "FP8 formats for deep learning", 2022), their variants
// without infinities and negative zero ("fnuz", Noune et al., 2022), and OCP microscaling formats (2023).
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct NarrowFormat {
    const char* name;
    DataType storage;             // uint8, or int8 for signed integers
    // Floating-point formats: bits of the fraction, exponent bias, largest finite code without its sign. The code after
    // it is infinity with `has_infinity`. Integers: mantissa -1; scales of powers of two without sign: mantissa 0.
    int mantissa = -1, bias = 0;
    int sign_bit = 0, largest = 0;
    int nan = -1;                 // code of NaN without its sign; -1: the format has none
    bool has_infinity = false;
    bool unsigned_zero = false;   // the code of -0 is NaN
    int bits = 0;                 // of integers
};

// float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0, float6e2m3, float6e3m2, float4e2m1, int4,
// uint4, int2, uint2. Throws InvalidArgument for other names.
const NarrowFormat& narrow_format(std::string_view name);

enum class NarrowRounding { up, down, nearest };   // of float8e8m0; away from zero, towards zero, ties up

struct NarrowOptions {
    bool saturate = true;         // to the largest finite number instead of infinity or NaN
    NarrowRounding rounding = NarrowRounding::up;
};

// target = source in `format`, rounded to nearest, ties to even; integers drop fractions and higher bits. Any real
// source type, any strides, one shape.
void narrow(Queue& queue, const Tensor& source, const NarrowFormat& format, const NarrowOptions& options,
            const Tensor& target);

// target = the numbers that source holds in `format`, converted as `copy` does to any real type.
void widen(Queue& queue, const Tensor& source, const NarrowFormat& format, const Tensor& target);

}  // namespace clprim
CLPRIM_API_END
