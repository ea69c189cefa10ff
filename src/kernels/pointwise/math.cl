// Functions for the code of pointwise and reduction rows. T is the compute type of the program, R its real type; one of
// T_FLOAT (float or, with T_DOUBLE, double), T_SIGNED, T_UNSIGNED, T_BOOL (uchar, 0 or 1), T_COMPLEX is defined.
// LIT(x) writes a floating-point constant in R's precision.
#include "core/smooth.cl"

#ifdef T_DOUBLE
#define LIT(x) x
#else
#define LIT(x) x##f
#endif

// The value as a float16 or bfloat16 would hold it.
static inline float round_float16(float v) { return float16_to_float(float_to_float16(v)); }
static inline float round_bfloat16(float v) { return bfloat16_to_float(float_to_bfloat16(v)); }

#ifndef T_COMPLEX
// Largest and smallest, NaN if either is NaN.
static inline T maximum(T a, T b) { return a != a ? a : a > b ? a : b; }
static inline T minimum(T a, T b) { return a != a ? a : a < b ? a : b; }
// Within [low, high]; NaN stays NaN, a NaN bound gives NaN; high wins where the bounds cross.
static inline T clamp_to(T x, T low, T high) { return minimum(maximum(x, low), high); }
#endif

#ifdef T_FLOAT
static inline T sigmoid(T x) { return 1 / (1 + exp(-x)); }
static inline T fractional(T x) { return x - trunc(x); }
static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }

// Python's %: the sign of the divisor.
static inline T remainder_of(T a, T b)
{
    T r = fmod(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
static inline T fmod_of(T a, T b) { return fmod(a, b); }
static inline T true_divide(T a, T b) { return a / b; }
static inline T divide_trunc(T a, T b) { return trunc(a / b); }
// Python's //, exact where a / b would round up to the next integer.
static inline T divide_floor(T a, T b)
{
    if (b == 0)
        return a / b;
    T r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0))
        q -= 1;
    if (q == 0)
        return copysign((T)0, a / b);
    T whole = floor(q);
    return q - whole > LIT(0.5) ? whole + 1 : whole;
}
static inline T power(T a, T b) { return pow(a, b); }

#ifdef T_DOUBLE
static inline T tanh_of(T x) { return tanh(x); }
static inline T normal_cdf(T x) { return LIT(0.5) * (1 + erf(x * LIT(0.70710678118654752440))); }
#else
CLPRIM_SMOOTH_FUNCTIONS(float, int, power_of_two, tanh_of, normal_cdf)
#endif

static inline T gelu(T x) { return x * normal_cdf(x); }
static inline T gelu_tanh(T x)
{
    T inner = LIT(0.79788456080286535588) * (x + LIT(0.044715) * x * x * x);
    return LIT(0.5) * x * (1 + tanh_of(inner));
}
static inline T gelu_gradient(T dy, T x)
{
    T pdf = exp(LIT(-0.5) * x * x) * LIT(0.39894228040143267794);
    return dy * (normal_cdf(x) + x * pdf);
}
static inline T gelu_tanh_gradient(T dy, T x)
{
    T inner = LIT(0.79788456080286535588) * (x + LIT(0.044715) * x * x * x);
    T t = tanh_of(inner);
    T inner_gradient = LIT(0.79788456080286535588) * (1 + LIT(0.134145) * x * x);
    return dy * LIT(0.5) * ((1 + t) + x * (1 - t * t) * inner_gradient);
}
// log1p of [0, 1], where it is 2 atanh(u / (2 + u)): without branches and calls, as tanh_of. The series ends where
// terms are below 3e-9 of the sum; log(1 + exp(x)) comes out within 3 units in the last place.
#ifdef T_DOUBLE
static inline T log1p_to_one(T u) { return log1p(u); }
#else
static inline T log1p_to_one(T u)
{
    const T z = u / (u + 2), s = z * z;
    T p = 0.133333333f;
    p = p * s + 0.153846154f;
    p = p * s + 0.181818182f;
    p = p * s + 0.222222222f;
    p = p * s + 0.285714286f;
    p = p * s + 0.4f;
    p = p * s + 0.666666667f;
    return z * (p * s) + 2 * z;
}
#endif
// log(1 + exp(x))
static inline T log_one_and_exp(T x) { return (x > 0 ? x : (T)0) + log1p_to_one(exp(-fabs(x))); }
static inline T softplus(T x, T beta, T threshold)
{
    return x * beta > threshold ? x : log_one_and_exp(x * beta) / beta;
}
static inline T log_sigmoid(T x) { return fmin((T)0, x) - log1p_to_one(exp(-fabs(x))); }
// tanh(log(1 + exp(x))), which is 1 from far below 40 on.
static inline T mish_tanh(T x)
{
    const T e = exp(x > 40 ? (T)40 : x), n = e * (e + 2);
    return n / (n + 2);
}

static inline T log_add_exp(T a, T b)
{
    if (isinf(a) && a == b)
        return a;
    T m = maximum(a, b);
    return m + log1p_to_one(exp(-fabs(a - b)));
}
static inline T log_add_exp2(T a, T b)
{
    if (isinf(a) && a == b)
        return a;
    T m = maximum(a, b);
    return m + log1p_to_one(exp2(-fabs(a - b))) * LIT(1.44269504088896340736);
}
static inline T x_log_y(T x, T y) { return isnan(y) ? y : x == 0 ? (T)0 : x * log(y); }
static inline T x_log1p_y(T x, T y) { return isnan(y) ? y : x == 0 ? (T)0 : x * log1p(y); }
// nextafter of numbers with fewer digits than T: one step is `digits` of the power of two below x; the smallest ones are
// `tiny` apart, and `largest` is the last one before infinity.
static inline T next_narrow(T x, T y, T digits, T tiny, T largest)
{
    const T size = fabs(x);
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return y;
    if (x == 0)
        return copysign(tiny, y);
    if (isinf(x))
        return copysign(largest, x);
    const int outward = (y > x) == (x > 0);
    const T power = ldexp((T)1, ilogb(size));
    return copysign(outward ? size + fmax(power * digits, tiny)
                            : size - fmax((size == power ? power / 2 : power) * digits, tiny), x);
}
static inline T lerp(T a, T b, T w) { return fabs(w) < LIT(0.5) ? a + w * (b - a) : b - (b - a) * (1 - w); }
static inline T sinc(T x)
{
    T p = x * LIT(3.14159265358979323846);
    return x == 0 ? (T)1 : sin(p) / p;
}
// log with the clamp of binary cross entropy.
static inline T clamped_log(T x) { return fmax(log(x), (T)-100); }
#endif

#if defined(T_SIGNED) || defined(T_UNSIGNED) || defined(T_BOOL)
#ifdef T_BOOL
static inline T invert(T x) { return !x; }
#else
static inline T invert(T x) { return ~x; }
#endif
// The negative number, wrapping: compilers count on signed arithmetic that does not.
#if T_SIZE == 8
static inline T negative(T x) { return (T)(0 - (ulong)x); }
#else
static inline T negative(T x) { return (T)(0 - (uint)x); }
#endif
// Integer division by zero gives 0 and the quotient that does not fit wraps: what must not happen is a trap.
static inline T divide_trunc(T a, T b)
{
#ifdef T_SIGNED
    if (b == -1)
        return negative(a);
#endif
    return b == 0 ? (T)0 : (T)(a / (b == 0 ? (T)1 : b));
}
static inline T fmod_of(T a, T b)
{
#ifdef T_SIGNED
    if (b == -1)
        return 0;
#endif
    return b == 0 ? (T)0 : (T)(a % (b == 0 ? (T)1 : b));
}
static inline T remainder_of(T a, T b)
{
    T r = fmod_of(a, b);
    return r != 0 && (b < 0) != (r < 0) ? (T)(r + b) : r;
}
static inline T divide_floor(T a, T b)
{
    const T q = divide_trunc(a, b);
#ifdef T_SIGNED
    // What is left is the remainder in its low bits, whether or not the quotient wrapped. CPUs get it with the quotient
    // of 64 bits, whose multiplication takes longer.
#if T_SIZE == 8 && defined(CLPRIM_DEVICE_CPU)
    const T rest = fmod_of(a, b);
#elif T_SIZE == 8
    const T rest = (T)((ulong)a - (ulong)q * (ulong)b);
#else
    const T rest = (T)((uint)a - (uint)q * (uint)b);
#endif
    return b != 0 && (a < 0) != (b < 0) && rest != 0 ? (T)(q - 1) : q;
#else
    return q;
#endif
}
static inline T power(T a, T b)
{
#ifdef T_SIGNED
    if (b < 0)
        return a == 1 ? (T)1 : a == -1 ? (T)(b & 1 ? -1 : 1) : (T)0;
#endif
    T result = 1;
    for (; b > 0; b >>= 1, a = (T)(a * a))
        if (b & 1)
            result = (T)(result * a);
    return result;
}
static inline T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
static inline T magnitude(T x) { return x < 0 ? negative(x) : x; }
static inline T greatest_common_divisor(T a, T b)
{
    a = magnitude(a);
    b = magnitude(b);
    while (a != 0) {
        T r = fmod_of(b, a);
        b = a;
        a = r;
    }
    return b;
}
static inline T least_common_multiple(T a, T b)
{
    T g = greatest_common_divisor(a, b);
    if (g == 0)
        return 0;
#if T_SIZE < 4   // narrow integers are multiplied as int
    const int multiple = divide_trunc(a, g) * b;
    return (T)(multiple < 0 ? -multiple : multiple);
#elif T_SIZE == 4
    return magnitude((T)((uint)divide_trunc(a, g) * (uint)b));
#else
    return magnitude((T)((ulong)divide_trunc(a, g) * (ulong)b));
#endif
}
// Shifts by a negative amount or past the width: 0, and the sign for arithmetic shifts to the right.
static inline T shift_left(T a, T b) { return b < 0 || b >= (T)(T_SIZE * 8) ? (T)0 : (T)((ulong)a << b); }
static inline T shift_right(T a, T b)
{
#ifdef T_SIGNED
    return b < 0 || b >= (T)(T_SIZE * 8) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
#else
    return b >= (T)(T_SIZE * 8) ? (T)0 : (T)(a >> b);
#endif
}
#endif

#ifdef T_COMPLEX
#include "kernels/pointwise/complex.cl"
#endif

// What reductions need of every kind of T.
#if defined(T_FLOAT)
#define T_LOWEST (-(T)INFINITY)
#define T_HIGHEST ((T)INFINITY)
#elif defined(T_SIGNED)
#define T_HIGHEST ((T)(((ulong)1 << (T_SIZE * 8 - 1)) - 1))
#define T_LOWEST ((T)(-T_HIGHEST - 1))
#elif defined(T_BOOL)
#define T_HIGHEST 1
#define T_LOWEST 0
#else
#define T_HIGHEST ((T)~(T)0)
#define T_LOWEST ((T)0)
#endif
#ifdef T_COMPLEX
static inline int nonzero(T x) { return x.x != 0 || x.y != 0; }
static inline T product(T a, T b) { return cmul(a, b); }
static inline R size_of(T x) { return cabs(x); }
static inline R inner(T a, T b) { return dot(a, b); }
static inline R square_of(T x) { return dot(x, x); }
#define T_ONE complex_of(1, 0)
#else
static inline int nonzero(T x) { return x != 0; }
static inline T product(T a, T b) { return (T)(a * b); }
#define T_ONE ((T)1)
#ifdef T_FLOAT
static inline R size_of(T x) { return fabs(x); }
static inline R inner(T a, T b) { return a * b; }
static inline R square_of(T x) { return x * x; }
#endif
#endif

// The bits of the value as a double, or of an integer as a 64-bit one, made without doubles.
#if defined(T_FLOAT) && defined(T_DOUBLE)
static inline ulong wide_bits(T x) { return as_ulong(x); }
#elif defined(T_FLOAT)
static inline ulong wide_bits(T x)
{
    const uint bits = as_uint(x), exponent = (bits >> 23) & 0xffu, rest = bits & 0x7fffffu;
    const ulong sign = (ulong)(bits >> 31) << 63;
    if (exponent == 0xffu)
        return sign | (0x7ffUL << 52) | ((ulong)rest << 29) | ((ulong)(rest != 0) << 51);
    if (exponent == 0) {   // subnormal numbers become normal
        const uint shift = clz(rest) - 8;
        return rest == 0 ? sign : sign | ((ulong)(897 - shift) << 52) | ((ulong)((rest << shift) & 0x7fffffu) << 29);
    }
    return sign | ((ulong)(exponent + 896) << 52) | ((ulong)rest << 29);
}
#elif !defined(T_COMPLEX)
static inline ulong wide_bits(T x) { return (ulong)x; }
// Those of a float16 given as its bits: a conversion may lose the bits of a NaN.
static inline ulong wide_bits_of_float16(ushort x)
{
    const uint exponent = (x >> 10) & 31u, rest = x & 0x3ffu;
    const ulong sign = (ulong)(x >> 15) << 63;
    if (exponent == 31)
        return sign | (0x7ffUL << 52) | ((ulong)rest << 42) | ((ulong)(rest != 0) << 51);
    if (exponent == 0) {
        const uint shift = clz(rest) - 21;
        return rest == 0 ? sign : sign | ((ulong)(1009 - shift) << 52) | ((ulong)((rest << shift) & 0x3ffu) << 42);
    }
    return sign | ((ulong)(exponent + 1008) << 52) | ((ulong)rest << 42);
}
#endif
