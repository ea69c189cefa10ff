// Numbers of eight bits. Formats after OCP's specification of 8-bit floating point (e4m3fn: no infinity, NaN is all ones;
// e5m2: as IEEE), "FP8 formats for deep neural networks" (fnuz: no infinity, no negative zero, 0x80 is NaN) and OCP's
// microscaling formats (e8m0fnu: an exponent alone). -DFORMAT_<name>, -DSATURATE. All arithmetic is on bits, so that devices that
// flush subnormal numbers agree.
#include "kernels/float8/formats.cl"

#ifdef FORMAT_e8m0fnu
static inline uint decode(uint code)
{
    return code == 0 ? 0x00400000u : code == 255 ? 0x7fc00000u : code << 23;
}

static inline uchar encode(uint bits)
{
    const uint exponent = (bits >> 23) & 255, rest = bits & 0x7fffff;
    if (exponent == 255)
        return 255;
    // Half way to the next power of two: up, unless the number is subnormal, whose leading bit is not one.
    const bool up = rest > 0x400000 || (rest == 0x400000 && exponent > 0);
    return (uchar)(exponent + up);
}
#else
static inline uint decode(uint code)
{
    const uint sign = (code & 0x80u) << 24, rest = code & 0x7f;
    const uint exponent = rest >> MANTISSA, mantissa = rest & ((1u << MANTISSA) - 1);
#if defined(FNUZ)
    if (code == 0x80)
        return 0x7fc00000u;
#elif defined(FORMAT_e5m2)
    if (exponent == 31)
        return sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << 21 : 0);
#else
    if (rest == 0x7f)
        return sign | 0x7ff00000u;
#endif
    if (rest == 0)
        return sign;
    if (exponent != 0)
        return sign | ((exponent + 127 - BIAS) << 23) | (mantissa << (23 - MANTISSA));
    const uint shift = clz(mantissa) - (31 - MANTISSA);   // until the leading bit is the hidden one
    return sign | ((128 - BIAS - shift) << 23) | (((mantissa << shift) & ((1u << MANTISSA) - 1)) << (23 - MANTISSA));
}

static inline uchar encode(uint bits)
{
    const uint sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
    if (rest >= LIMIT) {
#if defined(FNUZ)
        return 0x80;
#elif defined(FORMAT_e5m2)
        return (uchar)(sign | (rest > 0x7f800000u ? 0x7f : 0x7c));
#elif defined(SATURATE)
        return (uchar)(sign | (rest > 0x7f800000u ? 0x7f : 0x7e));
#else
        return (uchar)(sign | 0x7f);
#endif
    }
    const uint exponent = rest >> 23;
    uint code;
    if (exponent < 128 - BIAS) {   // subnormal: multiples of 2^(1 - BIAS - MANTISSA)
        const uint shift = 151 - BIAS - MANTISSA - exponent;   // at least 24 - MANTISSA
        if (exponent == 0 || shift > 25) {
            code = 0;
        }
        else {
            const uint full = (rest & 0x7fffff) | 0x800000, kept = full >> shift;
            const uint lost = full & ((1u << shift) - 1), half_way = 1u << (shift - 1);
            code = kept + (lost > half_way || (lost == half_way && (kept & 1)));
        }
#ifdef FNUZ
        if (code == 0)
            return 0;
#endif
    }
    else {
        const uint odd = (rest >> (23 - MANTISSA)) & 1;
        code = ((rest - ((127u - BIAS) << 23) + ((1u << (22 - MANTISSA)) - 1) + odd) >> (23 - MANTISSA)) & 255;
#ifdef SATURATE
        code = min(code, 0x7eu);   // 0x7f is NaN
#endif
    }
    return (uchar)(sign | code);
}
#endif

__kernel void float8_to_float32(const __global uchar* codes, ulong codes_offset, __global uint* numbers,
                                ulong numbers_offset, ulong items)
{
    const ulong i = get_global_id(0);
    if (i < items)
        numbers[numbers_offset + i] = decode(codes[codes_offset + i]);
}

__kernel void float32_to_float8(const __global uint* numbers, ulong numbers_offset, __global uchar* codes,
                                ulong codes_offset, ulong items)
{
    const ulong i = get_global_id(0);
    if (i < items)
        codes[codes_offset + i] = encode(numbers[numbers_offset + i]);
}
