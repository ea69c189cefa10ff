// From sums to results. -DY=int32|float32|int8|uint8
#ifndef cl_long
#define cl_long long
#define cl_int int
#endif
#include "core/dtype.cl"
#include "kernels/integer/conv_problem.cl"

#define AT(p, step, o) ((step) < 0 ? 0 : (p)[(step) * (o)])
#define SUMS 0      // what results are
#define REALS 1
#define BYTES 2
#define KIND_int32 SUMS
#define KIND_float32 REALS
#define KIND_int8 BYTES
#define KIND_uint8 BYTES
#define KIND CLPRIM_CAT(KIND_, Y)

#if KIND == REALS
typedef float result;
typedef float8 results;
#else
typedef int result;
typedef int8 results;
#endif
#if KIND == BYTES
#define TO_int8 convert_char16
#define TO_uint8 convert_uchar16
#define STORE_RESULTS(one, two, to) vstore16(CLPRIM_CAT(TO_, Y)((int16)(one, two)), 0, to)
#else
#define STORE_RESULTS(one, two, to) (vstore8(one, 0, to), vstore8(two, 1, to))
#endif

// What stands behind the sums, moved to its offsets. Undefined ones are not read.
typedef struct {
    const __global int* bias;
    const __global float* scale;
    const __global storage_t(Y)* y_zero;
    const integer_conv_problem* p;
} conv_ending;

#define ENDING_ARGUMENTS                                                                                    \
    const __global int *bias, ulong bias_offset, const __global float *scale, ulong scale_offset,           \
        const __global storage_t(Y) * y_zero, ulong y_zero_offset
#define ENDING(p) {bias + bias_offset, scale + scale_offset, y_zero + y_zero_offset, &(p)}

// Of output channel o, counted over all groups.
static inline result ended(const conv_ending* e, int sum, long o)
{
    sum += AT(e->bias, e->p->bias, o);
#if KIND == SUMS
    return sum;
#elif KIND == REALS
    return (float)sum * AT(e->scale, e->p->scale, o);
#else
    const float q = fmin(fmax(rint((float)sum * AT(e->scale, e->p->scale, o)), -65536.0f), 65536.0f);
    return clamp((int)q + (int)AT(e->y_zero, e->p->y_zero, 0), e->p->low, e->p->high);
#endif
}

static inline results ended_vector(const conv_ending* e, int8 sums, long o)
{
    if (e->p->bias >= 0)
        sums += vload8(0, e->bias + o);
#if KIND == SUMS
    return sums;
#else
    const float8 scale = e->p->scale == 0 ? (float8)e->scale[0] : vload8(0, e->scale + o);
#endif
#if KIND == REALS
    return convert_float8(sums) * scale;
#elif KIND == BYTES
    const float8 q = fmin(fmax(rint(convert_float8(sums) * scale), (float8)-65536.0f), (float8)65536.0f);
    return clamp(convert_int8(q) + (int8)(int)AT(e->y_zero, e->p->y_zero, 0), (int8)e->p->low, (int8)e->p->high);
#endif
}
