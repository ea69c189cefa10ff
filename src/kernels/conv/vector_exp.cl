// Powers of e, and gelu's functions, for the activations of CPU kernels. The powers are within two units of the last
// place and a third faster than a driver's: no calls, which would move all sums out of their registers. Below -87 they
// are 0, above 88.37 infinite; NaN stays.
//
// e^v = 2^n e^r, n whole, |r| <= ln(2) / 2, e^r by the polynomial of Cephes' expf.
#define DEFINE_VECTOR_EXP(REAL, WHOLE)                                                                          \
    static inline REAL __attribute__((overloadable)) vector_exp(REAL v)                                         \
    {                                                                                                           \
        const REAL n = rint(v * 1.44269504f);                                                                   \
        const REAL r = fma(n, (REAL)-1.42860677e-6f, fma(n, (REAL)-0.693145752f, v));                           \
        REAL p = fma(r, (REAL)1.9875691500e-4f, (REAL)1.3981999507e-3f);                                        \
        p = fma(p, r, (REAL)8.3334519073e-3f);                                                                  \
        p = fma(p, r, (REAL)4.1665795894e-2f);                                                                  \
        p = fma(p, r, (REAL)1.6666665459e-1f);                                                                  \
        p = fma(p, r, (REAL)5.0000001201e-1f);                                                                  \
        p = fma(p * r, r, r + 1.0f);                                                                            \
        const REAL power = as_##REAL(as_##WHOLE(p) + (convert_##WHOLE(n) << 23));                             \
        return v > 88.3762f ? (REAL)INFINITY : v < -87.0f ? (REAL)0 : power;                                    \
    }
DEFINE_VECTOR_EXP(float, int)
DEFINE_VECTOR_EXP(float8, int8)
DEFINE_VECTOR_EXP(float16, int16)
#ifdef CLPRIM_FP64
static inline double __attribute__((overloadable)) vector_exp(double v) { return exp(v); }
static inline double4 __attribute__((overloadable)) vector_exp(double4 v) { return exp(v); }
static inline double8 __attribute__((overloadable)) vector_exp(double8 v) { return exp(v); }
#endif
#define EPILOGUE_EXP vector_exp

#ifdef EPILOGUE_GELU
#include "core/smooth.cl"
#define DEFINE_VECTOR_GELU(REAL, WHOLE)                                                                         \
    CLPRIM_SMOOTH_FUNCTIONS(REAL, WHOLE, power_of_two_##REAL, tanh_of_##REAL, normal_cdf_##REAL)                \
    static inline REAL __attribute__((overloadable)) vector_tanh(REAL v) { return tanh_of_##REAL(v); }          \
    static inline REAL __attribute__((overloadable)) vector_normal_cdf(REAL v) { return normal_cdf_##REAL(v); }
DEFINE_VECTOR_GELU(float, int)
DEFINE_VECTOR_GELU(float8, int8)
DEFINE_VECTOR_GELU(float16, int16)
#ifdef CLPRIM_FP64
#define DEFINE_DOUBLE_GELU(REAL)                                                                                \
    static inline REAL __attribute__((overloadable)) vector_tanh(REAL v) { return tanh(v); }                    \
    static inline REAL __attribute__((overloadable)) vector_normal_cdf(REAL v)                                  \
    {                                                                                                           \
        return 0.5 * (1 + erf(v * 0.70710678118654752440));                                                     \
    }
DEFINE_DOUBLE_GELU(double)
DEFINE_DOUBLE_GELU(double4)
DEFINE_DOUBLE_GELU(double8)
#endif
#define EPILOGUE_NORMAL_CDF(type, v) vector_normal_cdf(v)
#define EPILOGUE_TANH vector_tanh
#endif
