// Number formats of eight bits and fewer; see clprim/narrow.hpp. Codes are bytes, floats are exact in between.

#define NARROW_SATURATE 1
#define NARROW_INFINITY 2
#define NARROW_UNSIGNED_ZERO 4

// To float, keeping what later rounding needs: the last bit is set where digits were lost (round to odd; Boldo,
// Melquiond 2008).
#ifdef T_DOUBLE
static inline float narrow_input(double v)
{
    const float f = convert_float_rtz(v);
    return (double)f != v && v == v && fabs(v) < 1e38 ? as_float(as_uint(f) | 1u) : f;
}
#else
static inline float narrow_input(T v) { return (float)v; }
#endif

static inline int narrow_encode(float v, int mantissa, int bias, int sign_bit, int largest, int nan, int flags)
{
    const uint bits = as_uint(v) & 0x7fffffffu;
    const int sign = as_uint(v) >> 31 ? sign_bit : 0;
    const bool unsigned_zero = flags & NARROW_UNSIGNED_ZERO;
    if (bits > 0x7f800000u)
        return nan < 0 ? sign ^ sign_bit : unsigned_zero ? nan : nan | sign;
    int code = largest + 1;
    if (bits < 0x7f800000u) {
        // Units of the last place: 2^(exponent - mantissa); below the normal numbers they stay what they are.
        const int exponent = max((int)(bits >> 23) - 127, 1 - bias);
        const float units = rint(as_float(bits) * as_float((uint)(mantissa - exponent + 127) << 23));
        code = (int)units + ((exponent + bias - 1) << mantissa);
    }
    if (code > largest) {
        if (flags & NARROW_SATURATE || nan < 0)
            code = largest;
        else if (flags & NARROW_INFINITY)
            code = largest + 1;
        else
            return unsigned_zero ? nan : nan | sign;
    }
    return unsigned_zero && code == 0 ? 0 : code | sign;
}

static inline float narrow_decode(int code, int mantissa, int bias, int sign_bit, int largest, int flags)
{
    const int magnitude = code & (sign_bit - 1), exponent = magnitude >> mantissa;
    const int fraction = magnitude & ((1 << mantissa) - 1);
    float v;
    if (flags & NARROW_UNSIGNED_ZERO && code == sign_bit)
        v = NAN;
    else if (magnitude > largest)
        v = flags & NARROW_INFINITY && magnitude == largest + 1 ? INFINITY : NAN;
    else
        v = (float)(exponent ? fraction + (1 << mantissa) : fraction) *
            as_float((uint)(max(exponent, 1) - bias - mantissa + 127) << 23);
    return code & sign_bit ? -v : v;
}

// Powers of two by their exponent alone. rounding: 0 up, 1 down, 2 nearest with ties up.
static inline int narrow_encode_scale(float v, int rounding, int flags)
{
    const uint bits = as_uint(v) & 0x7fffffffu, fraction = bits & 0x7fffffu;
    const int exponent = bits >> 23;
    if (bits > 0x7f800000u)
        return 255;
    if (bits == 0x7f800000u)
        return flags & NARROW_SATURATE ? 254 : 255;
    if (!(flags & NARROW_SATURATE) && bits < 0x00400000u)
        return 255;
    const bool up =
        rounding == 0 ? fraction > 0 : rounding == 2 && (exponent ? fraction >= 0x400000u : fraction > 0x400000u);
    return up && !(exponent == 254 && flags & NARROW_SATURATE) ? exponent + 1 : exponent;
}
static inline float narrow_decode_scale(int code)
{
    return code == 255 ? NAN : as_float(code == 0 ? 0x00400000u : (uint)code << 23);
}

// The low bits of a whole number.
static inline int narrow_integer(long v, int bits, int is_signed)
{
    const int low = (int)(v & ((1 << bits) - 1));
    return is_signed && low >> (bits - 1) ? low - (1 << bits) : low;
}
