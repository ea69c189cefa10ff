// Sixteen codes of eight bits as the numbers that they stand for, with -DFORMAT_<name> (float8.cl). Subnormal numbers
// are made of integers, so that devices that flush them agree.
#include "kernels/float8/formats.cl"

static inline float16 float8_numbers(uchar16 codes)
{
    const uint16 code = convert_uint16(codes), rest = code & 127u;
    const uint16 normal = (rest << (uint16)(23 - MANTISSA)) + ((127u - BIAS) << 23);
    const uint16 subnormal = as_uint16(convert_float16(rest) * as_float((128u - BIAS - MANTISSA) << 23));
    uint16 bits = select(normal, subnormal, rest < (1u << MANTISSA));
#if defined(FNUZ)
    bits = select(bits, (uint16)0x7fc00000u, code == 128u);
#elif defined(FORMAT_e5m2)
    bits = select(bits, (uint16)0x7f800000u | (rest & 3u) << 21, rest >= 124u);
#else
    bits = select(bits, (uint16)0x7fc00000u, rest == 127u);
#endif
    return as_float16(bits | (code & 128u) << 24);
}
