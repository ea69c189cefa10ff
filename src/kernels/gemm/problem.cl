// The problem as kernels see it (GemmArguments in problem.hpp), and what happens to a finished sum.
// Options: -DX=<dtype of the matrices>, -DREAL=<float, double, uint, ulong: what sums are kept in>.
#include "core/dtype.cl"

typedef struct {
    long row, column, batch;   // strides in elements
} matrix_layout;

typedef struct {
    long batch, m, n, k;
    matrix_layout a, b, c, d;
    int add_d, activation;
} gemm_problem;

#define AT(matrix, i, j) ((i) * (matrix).row + (j) * (matrix).column)

// The activations, of numbers or vectors V; the comparison is false for NaN, which so survives relu.
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_GELU_TANH 3
#define RELU(V, v) ((v) < (V)0 ? (V)0 : (v))
#define GELU(V, v) ((v) * normal_cdf_##V(v))
#define GELU_TANH(V, v)                                                                                     \
    (CONSTANT(V, 0.5) * (v) *                                                                               \
     (CONSTANT(V, 1.0) +                                                                                    \
      tanh_of_##V(CONSTANT(V, 0.79788456080286535588) * ((v) + CONSTANT(V, 0.044715) * (v) * (v) * (v)))))
#define CONSTANT(V, x) ((V)CLPRIM_CAT(CONSTANT_, REAL)(x))
#define CONSTANT_float(x) x##f
#define CONSTANT_double(x) x
#define ACTIVATE(V, v, activation)                                                                          \
    if ((activation) == ACTIVATION_RELU)                                                                    \
        v = RELU(V, v);                                                                                     \
    else if ((activation) == ACTIVATION_GELU)                                                               \
        v = GELU(V, v);                                                                                     \
    else if ((activation) == ACTIVATION_GELU_TANH)                                                          \
        v = GELU_TANH(V, v);

#include "core/real.cl"
#include "core/smooth.cl"

// The functions of GELU and GELU_TANH for a type NAME: LANES numbers of REAL; none for integers. On GPUs the driver's,
// since kernels that look at `activation` as they run would keep the many numbers of our own in registers.
#define DEFINE_SMOOTH(NAME, REAL, LANES) CLPRIM_CAT(DEFINE_SMOOTH_, REAL)(NAME, LANES)
#define DEFINE_SMOOTH_BY_DRIVER(NAME, V)                                                                    \
    static inline V tanh_of_##NAME(V x) { return tanh(x); }                                                 \
    static inline V normal_cdf_##NAME(V x)                                                                  \
    {                                                                                                       \
        return CONSTANT(V, 0.5) * (CONSTANT(V, 1.0) + erf(x * CONSTANT(V, 0.70710678118654752440)));        \
    }
#ifdef CLPRIM_DEVICE_CPU
#define DEFINE_SMOOTH_float(NAME, LANES)                                                                    \
    CLPRIM_SMOOTH_FUNCTIONS(float##LANES, int##LANES, power_of_two_##NAME, tanh_of_##NAME, normal_cdf_##NAME)
#else
#define DEFINE_SMOOTH_float(NAME, LANES) DEFINE_SMOOTH_BY_DRIVER(NAME, float##LANES)
#endif
#define DEFINE_SMOOTH_double(NAME, LANES) DEFINE_SMOOTH_BY_DRIVER(NAME, double##LANES)
#define DEFINE_SMOOTH_uint(NAME, LANES)
#define DEFINE_SMOOTH_ulong(NAME, LANES)
DEFINE_SMOOTH(REAL, REAL, )

// What becomes of one finished sum: C's element c, with D's element d.
#ifndef COMPLEX
static inline void finish_element(REAL v, __global storage_t(X)* c, const __global storage_t(X) * d,
                                  const gemm_problem* p, REAL alpha, REAL beta)
{
    v *= alpha;
    if (p->add_d)
        v += beta * (REAL)load(X, d, 0);
#if !REAL_IS_INTEGER
    ACTIVATE(REAL, v, p->activation)
#endif
    store(X, c, 0, (compute_t(X))v);
}
#endif
