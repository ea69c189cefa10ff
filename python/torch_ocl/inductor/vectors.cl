// Explicit vectors of 16 elements on CPUs, beside prelude.cl. Truth values are int16: all bits of an element, or none.
// n: how many elements there are, 16 or fewer at the end of a row.
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

#define CLPRIM_VECTOR_ACCESS(D, S)                                                                                    \
    static inline S##16 load16_##D(const __global S* p, ulong i, int n)                                               \
    {                                                                                                                 \
        if (n == 16)                                                                                                  \
            return vload16(0, p + i);                                                                                 \
        S part[16] = {0};                                                                                             \
        int k = 0;                                                                                                    \
        if (n & 8) {                                                                                                  \
            vstore8(vload8(0, p + i), 0, part);                                                                       \
            k = 8;                                                                                                    \
        }                                                                                                             \
        if (n & 4) {                                                                                                  \
            vstore4(vload4(0, p + i + k), 0, part + k);                                                               \
            k += 4;                                                                                                   \
        }                                                                                                             \
        if (n & 2) {                                                                                                  \
            vstore2(vload2(0, p + i + k), 0, part + k);                                                               \
            k += 2;                                                                                                   \
        }                                                                                                             \
        if (n & 1)                                                                                                    \
            part[k] = p[i + k];                                                                                       \
        return vload16(0, part);                                                                                      \
    }                                                                                                                 \
    static inline void store16_##D(__global S* p, ulong i, S##16 v, int n)                                            \
    {                                                                                                                 \
        if (n == 16) {                                                                                                \
            vstore16(v, 0, p + i);                                                                                    \
            return;                                                                                                   \
        }                                                                                                             \
        S part[16];                                                                                                   \
        vstore16(v, 0, part);                                                                                         \
        int k = 0;                                                                                                    \
        if (n & 8) {                                                                                                  \
            vstore8(vload8(0, part), 0, p + i);                                                                       \
            k = 8;                                                                                                    \
        }                                                                                                             \
        if (n & 4) {                                                                                                  \
            vstore4(vload4(0, part + k), 0, p + i + k);                                                               \
            k += 4;                                                                                                   \
        }                                                                                                             \
        if (n & 2) {                                                                                                  \
            vstore2(vload2(0, part + k), 0, p + i + k);                                                               \
            k += 2;                                                                                                   \
        }                                                                                                             \
        if (n & 1)                                                                                                    \
            p[i + k] = part[k];                                                                                       \
    }                                                                                                                 \
    /* Past the cache, for results that would not stay there: their lines are not fetched first. */                   \
    static inline void stream16_##D(__global S* p, ulong i, S##16 v, int n)                                           \
    {                                                                                                                 \
        if (n == 16 && (ulong)(p + i) % sizeof(S##16) == 0)                                                           \
            __builtin_nontemporal_store(v, (__global S##16*)(p + i));                                                 \
        else                                                                                                          \
            store16_##D(p, i, v, n);                                                                                  \
    }
CLPRIM_VECTOR_ACCESS(int8, char)
CLPRIM_VECTOR_ACCESS(uint8, uchar)
CLPRIM_VECTOR_ACCESS(int16, short)
CLPRIM_VECTOR_ACCESS(uint16, ushort)
CLPRIM_VECTOR_ACCESS(int32, int)
CLPRIM_VECTOR_ACCESS(int64, long)
CLPRIM_VECTOR_ACCESS(float32, float)
#ifdef CLPRIM_FP64
CLPRIM_VECTOR_ACCESS(float64, double)
#endif

// dtypes whose elements are others in registers.
#define CLPRIM_VECTOR_CONVERTED(D, M, S, V, FROM, TO)                                                                 \
    static inline V load16_##D(const __global S* p, ulong i, int n) { return FROM(load16_##M(p, i, n)); }             \
    static inline void store16_##D(__global S* p, ulong i, V v, int n) { store16_##M(p, i, TO(v), n); }               \
    static inline void stream16_##D(__global S* p, ulong i, V v, int n) { stream16_##M(p, i, TO(v), n); }

static inline int16 uchar_to_truth(uchar16 v) { return convert_int16(v != (uchar16)0); }
static inline uchar16 truth_to_uchar(int16 v) { return convert_uchar16(v & 1); }
static inline float16 bfloat16_to_float_16(ushort16 bits) { return as_float16(convert_uint16(bits) << 16); }
static inline ushort16 float_to_bfloat16_16(float16 v)
{
    const uint16 bits = as_uint16(v), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return convert_ushort16(v != v ? (uint16)0x7fc0u : rounded);
}
#ifdef CLPRIM_FP16
static inline float16 float16_to_float_16(ushort16 bits) { return convert_float16(as_half16(bits)); }
static inline ushort16 float_to_float16_16(float16 v) { return as_ushort16(convert_half16(v)); }
#else
static inline float16 float16_to_float_16(ushort16 bits) { return vload_half16(0, (const half*)&bits); }
static inline ushort16 float_to_float16_16(float16 v)
{
    ushort16 bits;
    vstore_half16_rte(v, 0, (half*)&bits);
    return bits;
}
#endif
CLPRIM_VECTOR_CONVERTED(boolean, uint8, uchar, int16, uchar_to_truth, truth_to_uchar)
CLPRIM_VECTOR_CONVERTED(bfloat16, uint16, ushort, float16, bfloat16_to_float_16, float_to_bfloat16_16)
CLPRIM_VECTOR_CONVERTED(float16, uint16, ushort, float16, float16_to_float_16, float_to_float16_16)

// What prelude.cl and math.cl have for one element.
CLPRIM_SMOOTH_FUNCTIONS(float16, int16, power_of_two_16, tanh_of_float16, normal_cdf_float16)
#ifdef CLPRIM_FP64
static inline double16 tanh_of_double16(double16 x) { return tanh(x); }
static inline double16 normal_cdf_double16(double16 x) { return 0.5 * (1 + erf(x * 0.70710678118654752440)); }
#endif

// The first elements of a step's result, the others as they were.
#define CLPRIM_VECTOR_TAKEN(S, M)                                                                                     \
    static inline S##16 taken_##S##16(S##16 old, S##16 v, int n)                                                      \
    {                                                                                                                 \
        return n == 16 ? v : select(old, v, convert_##M##16(LANES < n));                                              \
    }

// Extremes, NaN if either is NaN: one instruction for the extreme, and a choice that does not wait for it.
#define CLPRIM_VECTOR_EXTREMES(S)                                                                                     \
    static inline S##16 maximum_##S##16(S##16 a, S##16 b) { return select(select(a, b, b > a), b, b != b); }          \
    static inline S##16 minimum_##S##16(S##16 a, S##16 b) { return select(select(a, b, b < a), b, b != b); }
CLPRIM_VECTOR_TAKEN(int, int)    // truth values
// The elements of a vector together, in halves. M: integers as wide as S.
#define CLPRIM_VECTOR_EXTREME_FOLD(NAME, S, BETTER)                                                                   \
    static inline S fold_##NAME##_##S##16(S##16 v)                                                                    \
    {                                                                                                                 \
        const S##8 a = select(v.hi, v.lo, v.lo BETTER v.hi);                                                          \
        const S##4 b = select(a.hi, a.lo, a.lo BETTER a.hi);                                                          \
        const S##2 c = select(b.hi, b.lo, b.lo BETTER b.hi);                                                          \
        return any(v != v) ? (S)NAN : c.lo BETTER c.hi ? c.lo : c.hi;                                                 \
    }
#define CLPRIM_VECTOR_FOLDS(S, M)                                                                                     \
    CLPRIM_VECTOR_TAKEN(S, M)                                                                                         \
    CLPRIM_VECTOR_EXTREMES(S)                                                                                         \
    static inline S fold_sum_##S##16(S##16 v)                                                                         \
    {                                                                                                                 \
        const S##8 a = v.lo + v.hi;                                                                                   \
        const S##4 b = a.lo + a.hi;                                                                                   \
        const S##2 c = b.lo + b.hi;                                                                                   \
        return c.lo + c.hi;                                                                                           \
    }                                                                                                                 \
    static inline S fold_prod_##S##16(S##16 v)                                                                        \
    {                                                                                                                 \
        const S##8 a = v.lo * v.hi;                                                                                   \
        const S##4 b = a.lo * a.hi;                                                                                   \
        const S##2 c = b.lo * b.hi;                                                                                   \
        return c.lo * c.hi;                                                                                           \
    }                                                                                                                 \
    CLPRIM_VECTOR_EXTREME_FOLD(max, S, >)                                                                             \
    CLPRIM_VECTOR_EXTREME_FOLD(min, S, <)
CLPRIM_VECTOR_FOLDS(float, int)
CLPRIM_VECTOR_EXTREMES(int)
CLPRIM_VECTOR_EXTREMES(long)
#ifdef CLPRIM_FP64
CLPRIM_VECTOR_FOLDS(double, long)
#endif
