// 16-bit floating-point formats on the host.
#pragma once

#include <bit>
#include <cstdint>

namespace clprim {

inline float bfloat16_to_float(std::uint16_t bits)
{
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float half_to_float(std::uint16_t bits)
{
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31)
        return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float tiny = static_cast<float>(fraction) * 0x1p-24f;   // subnormal or zero
    return sign ? -tiny : tiny;
}

}  // namespace clprim
