// From sums to results. -DY=int32|int8|uint8
#ifndef cl_long
#define cl_long long
#define cl_int int
#endif
#include "core/dtype.cl"
#include "kernels/integer/conv_problem.cl"

#define AT(p, step, o) ((step) < 0 ? 0 : (p)[(step) * (o)])
#define IS_int32 1
#define IS_int8 0
#define IS_uint8 0
#define EXACT CLPRIM_CAT(IS_, Y)

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
static inline int ended(const conv_ending* e, int sum, long o)
{
    sum += AT(e->bias, e->p->bias, o);
#if EXACT
    return sum;
#else
    const float q = fmin(fmax(rint((float)sum * AT(e->scale, e->p->scale, o)), -65536.0f), 65536.0f);
    return clamp((int)q + (int)AT(e->y_zero, e->p->y_zero, 0), e->p->low, e->p->high);
#endif
}

static inline int8 ended_vector(const conv_ending* e, int8 sums, long o)
{
    if (e->p->bias >= 0)
        sums += vload8(0, e->bias + o);
#if EXACT
    return sums;
#else
    const float8 scale = e->p->scale == 0 ? (float8)e->scale[0] : vload8(0, e->scale + o);
    const float8 q = fmin(fmax(rint(convert_float8(sums) * scale), (float8)-65536.0f), (float8)65536.0f);
    return clamp(convert_int8(q) + (int8)(int)AT(e->y_zero, e->p->y_zero, 0), (int8)e->p->low, (int8)e->p->high);
#endif
}
