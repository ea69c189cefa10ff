// Functions of generated kernels, beside core/dtype.cl and kernels/pointwise/math.cl. One for each type of variables.
#ifdef CLPRIM_FP64
typedef double widest;
#else
typedef float widest;
#endif

// Python's // and %, for indices, of int where that is wide enough. Without a branch: with one, Intel's compiler for
// CPUs divides by zero in lanes that are masked away, where one of these is an operand of the other.
#define CLPRIM_INDEX_DIVISION(NAME, S, U)                                                                             \
    static inline S NAME##_quotient(S a, S b)                                                                         \
    {                                                                                                                 \
        const S turned = b < 0 ? -a : a;                                                                              \
        const S sign = turned >> (8 * sizeof(S) - 1);                                                                 \
        return (S)((U)(turned ^ sign) / (U)(b < 0 ? -b : b)) ^ sign;                                                  \
    }                                                                                                                 \
    static inline S NAME##_modulo(S a, S b) { return a - b * NAME##_quotient(a, b); }
CLPRIM_INDEX_DIVISION(index, long, ulong)
CLPRIM_INDEX_DIVISION(narrow, int, uint)
static inline long index_power(long base, long exponent)
{
    long result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

// NaN if either is NaN.
#define CLPRIM_EXTREMES(S)                                                                                            \
    static inline S maximum_##S(S a, S b) { return a > b || a != a ? a : b; }                                         \
    static inline S minimum_##S(S a, S b) { return a < b || a != a ? a : b; }
CLPRIM_EXTREMES(bool)
CLPRIM_EXTREMES(char)
CLPRIM_EXTREMES(uchar)
CLPRIM_EXTREMES(short)
CLPRIM_EXTREMES(ushort)
CLPRIM_EXTREMES(int)
CLPRIM_EXTREMES(uint)
CLPRIM_EXTREMES(long)
CLPRIM_EXTREMES(ulong)
CLPRIM_EXTREMES(float)

// Integer division by zero gives 0; what does not fit wraps (kernels/pointwise/math.cl). Shifts past the width give 0,
// or the sign to the right.
#define CLPRIM_INTEGERS(S, U, BITS, IS_SIGNED)                                                                        \
    static inline S quotient_trunc_##S(S a, S b)                                                                      \
    {                                                                                                                 \
        if (IS_SIGNED && b == (S)-1)                                                                                  \
            return (S)(0 - (U)a);                                                                                     \
        return b == 0 ? (S)0 : (S)(a / (b == 0 ? (S)1 : b));                                                          \
    }                                                                                                                 \
    static inline S remainder_trunc_##S(S a, S b)                                                                     \
    {                                                                                                                 \
        if (IS_SIGNED && b == (S)-1)                                                                                  \
            return 0;                                                                                                 \
        return b == 0 ? (S)0 : (S)(a % (b == 0 ? (S)1 : b));                                                          \
    }                                                                                                                 \
    static inline S quotient_floor_##S(S a, S b)                                                                      \
    {                                                                                                                 \
        const S q = quotient_trunc_##S(a, b);                                                                         \
        return IS_SIGNED && b != 0 && (a < 0) != (b < 0) && remainder_trunc_##S(a, b) != 0 ? (S)(q - 1) : q;          \
    }                                                                                                                 \
    static inline S remainder_floor_##S(S a, S b)                                                                     \
    {                                                                                                                 \
        const S r = remainder_trunc_##S(a, b);                                                                        \
        return IS_SIGNED && r != 0 && (b < 0) != (r < 0) ? (S)(r + b) : r;                                            \
    }                                                                                                                 \
    static inline S shift_left_##S(S a, S b) { return b < 0 || b >= (S)BITS ? (S)0 : (S)((U)a << b); }                \
    static inline S shift_right_##S(S a, S b)                                                                         \
    {                                                                                                                 \
        return b < 0 || b >= (S)BITS ? (S)(a < 0 ? -1 : 0) : (S)(a >> b);                                             \
    }                                                                                                                 \
    static inline S power_##S(S a, S b)                                                                               \
    {                                                                                                                 \
        if (IS_SIGNED && b < 0)                                                                                       \
            return a == 1 ? (S)1 : a == (S)-1 ? (S)(b & 1 ? -1 : 1) : (S)0;                                           \
        U result = 1, base = (U)a;                                                                                    \
        for (; b > 0; b >>= 1, base = (U)(base * base))                                                               \
            if (b & 1)                                                                                                \
                result = (U)(result * base);                                                                          \
        return (S)result;                                                                                             \
    }
CLPRIM_INTEGERS(char, uchar, 8, 1)
CLPRIM_INTEGERS(uchar, uchar, 8, 0)
CLPRIM_INTEGERS(short, ushort, 16, 1)
CLPRIM_INTEGERS(ushort, ushort, 16, 0)
CLPRIM_INTEGERS(int, uint, 32, 1)
CLPRIM_INTEGERS(uint, uint, 32, 0)
CLPRIM_INTEGERS(long, ulong, 64, 1)
CLPRIM_INTEGERS(ulong, ulong, 64, 0)

// Mean, sum of squared deviations and weight: the n-th value taken (Welford; n is the same for all work-items, so that
// the division is made once for them), and two sets merged (Chan, Golub, LeVeque).
#define CLPRIM_MOMENTS(S)                                                                                             \
    typedef struct {                                                                                                  \
        S mean, squares, weight;                                                                                      \
    } moments_##S;                                                                                                    \
    static inline moments_##S moments_take_##S(moments_##S s, S x, int n)                                             \
    {                                                                                                                 \
        const S d = x - s.mean;                                                                                       \
        s.weight = n;                                                                                                 \
        s.mean += d * ((S)1 / (S)n);                                                                                  \
        s.squares += d * (x - s.mean);                                                                                \
        return s;                                                                                                     \
    }                                                                                                                 \
    static inline moments_##S moments_merge_##S(moments_##S s, moments_##S other)                                     \
    {                                                                                                                 \
        const S n = s.weight + other.weight, part = n > 0 ? other.weight / n : 0, d = other.mean - s.mean;            \
        s.squares += other.squares + d * d * s.weight * part;                                                         \
        s.mean += d * part;                                                                                           \
        s.weight = n;                                                                                                 \
        return s;                                                                                                     \
    }                                                                                                                 \
    typedef struct {                                                                                                  \
        S top, sum;                                                                                                   \
    } softmax_##S;                                                                                                    \
    static inline softmax_##S softmax_merge_##S(softmax_##S s, softmax_##S other)                                     \
    {                                                                                                                 \
        const S top = maximum_##S(s.top, other.top);                                                                  \
        s.sum = (s.top == top ? s.sum : s.sum * exp(s.top - top)) +                                                   \
                (other.top == top ? other.sum : other.sum * exp(other.top - top));                                    \
        s.top = top;                                                                                                  \
        return s;                                                                                                     \
    }
CLPRIM_MOMENTS(float)
#ifdef CLPRIM_FP64
CLPRIM_EXTREMES(double)
CLPRIM_MOMENTS(double)
#endif

// The extreme and where it is: the first of equals, and the first NaN before everything.
#ifdef CLPRIM_DEVICE_GPU   // where structures with less than 32 bits lie in private memory
#define CLPRIM_KEPT(S) int
#else
#define CLPRIM_KEPT(S) S
#endif
#define CLPRIM_EXTREME_PLACE(S, KEPT)                                                                                 \
    typedef struct {                                                                                                  \
        KEPT value;                                                                                                   \
        long index;                                                                                                   \
    } place_##S;                                                                                                      \
    static inline place_##S place_max_##S(place_##S s, place_##S other)                                               \
    {                                                                                                                 \
        const int nan = s.value != s.value, other_nan = other.value != other.value;                                   \
        const int same = nan ? other_nan : s.value == other.value;                                                    \
        const int better = same ? other.index < s.index : !nan && (other_nan || other.value > s.value);               \
        s.value = better ? other.value : s.value;                                                                     \
        s.index = better ? other.index : s.index;                                                                     \
        return s;                                                                                                     \
    }                                                                                                                 \
    static inline place_##S place_min_##S(place_##S s, place_##S other)                                               \
    {                                                                                                                 \
        const int nan = s.value != s.value, other_nan = other.value != other.value;                                   \
        const int same = nan ? other_nan : s.value == other.value;                                                    \
        const int better = same ? other.index < s.index : !nan && (other_nan || other.value < s.value);               \
        s.value = better ? other.value : s.value;                                                                     \
        s.index = better ? other.index : s.index;                                                                     \
        return s;                                                                                                     \
    }
CLPRIM_EXTREME_PLACE(bool, CLPRIM_KEPT(bool))
CLPRIM_EXTREME_PLACE(char, CLPRIM_KEPT(char))
CLPRIM_EXTREME_PLACE(uchar, CLPRIM_KEPT(uchar))
CLPRIM_EXTREME_PLACE(short, CLPRIM_KEPT(short))
CLPRIM_EXTREME_PLACE(ushort, CLPRIM_KEPT(ushort))
CLPRIM_EXTREME_PLACE(int, int)
CLPRIM_EXTREME_PLACE(uint, uint)
CLPRIM_EXTREME_PLACE(long, long)
CLPRIM_EXTREME_PLACE(ulong, ulong)
CLPRIM_EXTREME_PLACE(float, float)
#ifdef CLPRIM_FP64
CLPRIM_EXTREME_PLACE(double, double)
#endif
