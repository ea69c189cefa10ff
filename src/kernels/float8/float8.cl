// Numbers of eight bits. Formats after OCP's specification of 8-bit floating point (e4m3fn: no infinity, NaN is all ones;
// e5m2: as IEEE), "FP8 formats for deep neural networks" (fnuz: no infinity, no negative zero, 0x80 is NaN) and OCP's
// microscaling formats (e8m0fnu: an exponent alone). -DFORMAT_<name>, -DSATURATE. What is subnormal is made of integers,
// so that devices that flush such numbers agree.
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
// Subnormal codes are whole numbers of steps.
#define STEP as_float((128u - BIAS - MANTISSA) << 23)
#define STEPS as_float((126u + BIAS + MANTISSA) << 23)   // to a number of one

static inline uint decode(uint code)
{
    const uint sign = (code & 0x80u) << 24, rest = code & 0x7f;
    const uint normal = (rest << (23 - MANTISSA)) + ((127u - BIAS) << 23);
    uint bits = rest < (1u << MANTISSA) ? as_uint((float)rest * STEP) : normal;
#if defined(FNUZ)
    bits = code == 0x80 ? 0x7fc00000u : bits;
    return bits | (rest ? sign : 0);
#elif defined(FORMAT_e5m2)
    bits = rest >= 0x7c ? 0x7f800000u | (rest & 3 ? 0x400000u | (rest & 3) << 21 : 0) : bits;
#else
    bits = rest == 0x7f ? 0x7ff00000u : bits;
#endif
    return sign | bits;
}

static inline uchar encode(uint bits)
{
    const uint sign = (bits >> 24) & 0x80u, rest = bits & 0x7fffffffu;
    const uint odd = (rest >> (23 - MANTISSA)) & 1;
    uint code = ((rest - ((127u - BIAS) << 23) + ((1u << (22 - MANTISSA)) - 1) + odd) >> (23 - MANTISSA)) & 255;
#ifdef SATURATE
    code = min(code, 0x7eu);   // 0x7f is NaN
#endif
    if (rest < (128u - BIAS) << 23)
        code = (uint)rint(as_float(rest) * STEPS);   // half way to the even one
#if defined(FNUZ)
    return (uchar)(rest >= LIMIT ? 0x80 : code ? sign | code : 0);
#elif defined(FORMAT_e5m2)
    return (uchar)(sign | (rest < LIMIT ? code : rest > 0x7f800000u ? 0x7f : 0x7c));
#elif defined(SATURATE)
    return (uchar)(sign | (rest < LIMIT ? code : rest > 0x7f800000u ? 0x7f : 0x7e));
#else
    return (uchar)(sign | (rest < LIMIT ? code : 0x7f));
#endif
}
#endif

// A work-item owns four neighbours, on CPUs one element, of which their compilers make vectors.
#ifdef CLPRIM_DEVICE_CPU
#define EACH(FOUR, ONE)                                                                                               \
    const ulong i = get_global_id(0);                                                                                 \
    if (i < items)                                                                                                    \
        ONE;
#else
#define EACH(FOUR, ONE)                                                                                               \
    ulong i = get_global_id(0) * 4;                                                                                   \
    if (i + 4 <= items)                                                                                               \
        FOUR                                                                                                          \
    else                                                                                                              \
        for (; i < items; ++i)                                                                                        \
            ONE;
#endif

__kernel void float8_to_float32(const __global uchar* codes, ulong codes_offset, __global uint* numbers,
                                ulong numbers_offset, ulong items)
{
    codes += codes_offset;
    numbers += numbers_offset;
    EACH({
        const uchar4 four = vload4(0, codes + i);
        vstore4((uint4)(decode(four.x), decode(four.y), decode(four.z), decode(four.w)), 0, numbers + i);
    }, numbers[i] = decode(codes[i]))
}

__kernel void float32_to_float8(const __global uint* numbers, ulong numbers_offset, __global uchar* codes,
                                ulong codes_offset, ulong items)
{
    numbers += numbers_offset;
    codes += codes_offset;
    EACH({
        const uint4 four = vload4(0, numbers + i);
        vstore4((uchar4)(encode(four.x), encode(four.y), encode(four.z), encode(four.w)), 0, codes + i);
    }, codes[i] = encode(numbers[i]))
}
