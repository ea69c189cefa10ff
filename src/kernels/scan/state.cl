// What a cumulative operator carries along a line, and what it writes of it.
// -DT=dtype -DSCAN_sum|product|log_sum_exp|largest|smallest [-DCOMPLEX]
// [-DCOMPENSATED or -DIN_DOUBLE: sums of less than float64 in more than their own digits]
// [-DSCALED: products as a mantissa and an exponent, so that none overflows of parts of a line whose whole does not]
#if defined(CLPRIM_DEVICE_GPU) && (defined(SCAN_largest) || defined(SCAN_smallest))
#define SMALL_boolean 1
#define SMALL_int8 1
#define SMALL_uint8 1
#define SMALL_int16 1
#define SMALL_uint16 1
#define SMALL CLPRIM_CAT(SMALL_, T)
#endif
#if SMALL   // structures with less than 32 bits lie in private memory
typedef int value_t;
#define WIDEN(v) (v)
#define NARROW(v) ((compute_t(T))(v))
#elif defined(IN_DOUBLE) && defined(COMPLEX)
typedef double2 value_t;
#define WIDEN(v) convert_double2(v)
#define NARROW(v) convert_float2(v)
#elif defined(IN_DOUBLE)
typedef double value_t;
#define WIDEN(v) (v)
#define NARROW(v) ((float)(v))   // processors convert no double to 16 bits
#else
typedef compute_t(T) value_t;
#define WIDEN(v) (v)
#define NARROW(v) (v)
#endif

#if defined(SCAN_largest) || defined(SCAN_smallest)
#define EXTREME
typedef struct {
    value_t value;
    long at;
} state_t;
#ifdef SCAN_largest
#define REACHES(b, a) ((b) >= (a))
#define BEYOND(a, b) ((a) > (b))
#else
#define REACHES(b, a) ((b) <= (a))
#define BEYOND(a, b) ((a) < (b))
#endif
static inline state_t combine(state_t a, state_t b)
{
    // Member by member: compilers choose between whole structures in private memory.
    const bool second = b.value != b.value || (a.value == a.value && REACHES(b.value, a.value));
    state_t s = {second ? b.value : a.value, second ? b.at : a.at};
    return s;
}
static inline state_t state_of(value_t v, long at)
{
    state_t s = {v, at};
    return s;
}
#elif defined(SCAN_log_sum_exp) && defined(COMPLEX)
typedef struct {
    value_t value;
} state_t;
// log(exp(a) + exp(b)) = m + log1p(exp(l - m)) with m of the larger real part: its imaginary part is not wrapped.
static inline state_t combine(state_t a, state_t b)
{
    const value_t m = a.value.x >= b.value.x ? a.value : b.value, l = a.value.x >= b.value.x ? b.value : a.value;
    state_t s = {m};
    if (isnan(a.value.x) || isnan(a.value.y) || isnan(b.value.x) || isnan(b.value.y))
        s.value = (value_t)(NAN, NAN);
    else if (!isinf(m.x) || l.x == m.x) {
        const bool infinite = isinf(m.x);   // both: only their directions count
        const value_t d = (value_t)(infinite ? 0 : l.x - m.x, l.y - m.y);
        const value_t e = isinf(d.x) ? (value_t)(0, 0) : exp(d.x) * (value_t)(cos(d.y), sin(d.y));
        if (!(infinite && m.x < 0))
            s.value += (value_t)(infinite ? 0 : log1p(e.x * (2 + e.x) + e.y * e.y) / 2, atan2(e.y, 1 + e.x));
    }
    return s;
}
static inline state_t state_of(value_t v, long at)
{
    state_t s = {v};
    return s;
}
#elif defined(SCAN_log_sum_exp)
// The sum as rest * exp(value), value being the largest so far: rounded once, when it is emitted.
typedef struct {
    value_t value, rest;
} state_t;
static inline state_t combine(state_t a, state_t b)
{
    const bool second = b.value > a.value;
    const value_t low = second ? a.value : b.value, low_rest = second ? a.rest : b.rest;
    state_t s = {second ? b.value : a.value, second ? b.rest : a.rest};
    s.rest += low == s.value ? low_rest : low_rest * exp(low - s.value);
    s.value = low != low ? low : s.value;
    return s;
}
static inline state_t state_of(value_t v, long at)
{
    state_t s = {v, 1};
    return s;
}
#elif defined(COMPENSATED)
typedef struct {
    value_t value, rest;
} state_t;
static inline state_t combine(state_t a, state_t b)
{
    value_t sum = a.value + b.value;
    value_t part = sum - a.value;
    value_t lost = (a.value - (sum - part)) + (b.value - part);
    state_t s = {sum, isfinite(sum) ? a.rest + b.rest + lost : (value_t)(0)};
    return s;
}
static inline state_t state_of(value_t v, long at)
{
    state_t s = {v, (value_t)(0)};
    return s;
}
#elif defined(SCALED)
typedef struct {
    value_t value;   // times 2^exponent
    int exponent;
} state_t;
#define DOUBLE_float64 1
#define DOUBLE_complex128 1
#if CLPRIM_CAT(DOUBLE_, T)
typedef double real_t;
#define EXPONENT_OF(v) ((int)(as_ulong(v) >> 52 & 2047))
#define POWER(e) as_double((ulong)((e) + BIAS) << 52)
#define BIAS 1023
#else
typedef float real_t;
#define EXPONENT_OF(v) ((int)(as_uint(v) >> 23 & 255))
#define POWER(e) as_float((uint)((e) + BIAS) << 23)
#define BIAS 127
#endif
#ifdef COMPLEX
#define MULTIPLY(a, b) (value_t)((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x)
#define MAGNITUDE(v) fmax(fabs((v).x), fabs((v).y))
#else
#define MULTIPLY(a, b) ((a) * (b))
#define MAGNITUDE(v) (v)
#endif
static inline state_t scaled(value_t v, int exponent)   // to a magnitude from 1 to 2, but for 0, infinities and NaN
{
    const int found = EXPONENT_OF(MAGNITUDE(v));
    const int by = found == 0 || found == 2 * BIAS + 1 ? 0 : clamp(found - BIAS, 1 - BIAS, BIAS - 1);
    state_t s = {v * POWER(-by), exponent + by};
    return s;
}
static inline state_t combine(state_t a, state_t b)
{
    return scaled(MULTIPLY(a.value, b.value), a.exponent + b.exponent);
}
static inline state_t state_of(value_t v, long at)
{
    const bool subnormal = EXPONENT_OF(MAGNITUDE(v)) == 0;
    return scaled(subnormal ? v * POWER(64) : v, subnormal ? -64 : 0);
}
#else
typedef struct {
    value_t value;
} state_t;
static inline state_t combine(state_t a, state_t b)
{
    state_t s;
#if defined(SCAN_sum)
    s.value = a.value + b.value;
#elif defined(SCAN_product) && defined(COMPLEX)
    s.value = (value_t)(a.value.x * b.value.x - a.value.y * b.value.y, a.value.x * b.value.y + a.value.y * b.value.x);
#else
    s.value = a.value * b.value;
#endif
    return s;
}
static inline state_t state_of(value_t v, long at)
{
    state_t s = {v};
    return s;
}
#endif

static inline compute_t(T) result(state_t s)
{
#if defined(SCAN_log_sum_exp) && !defined(COMPLEX)
    return s.value + log(s.rest);
#elif defined(COMPENSATED)
    return s.value + s.rest;
#elif defined(SCALED)
    const int exponent = clamp(s.exponent, 2 - 2 * BIAS, 2 * BIAS - 2), first = exponent / 2;
    return s.value * POWER(first) * POWER(exponent - first);   // only the second may round, to a subnormal number
#else
    return NARROW(s.value);
#endif
}

static inline void emit(__global storage_t(T)* out, __global long* indices, long out_at, long index_at, state_t s)
{
    store(T, out, out_at, result(s));
#ifdef EXTREME
    indices[index_at] = s.at;
#endif
}

#define TENSORS                                                                                                        \
    const __global storage_t(T)* input, ulong input_offset, long input_stride, __global storage_t(T)* out,             \
        ulong out_offset, long out_stride, __global long* indices, ulong indices_offset, long indices_stride
