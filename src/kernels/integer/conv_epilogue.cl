// From sums to results. -DY=int32|float32|int8|uint8 [FACTOR: an ending has one]
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
#define TO_BYTES_int8 convert_char8
#define TO_BYTES_uint8 convert_uchar8
#define STORE_RESULTS(one, two, to) vstore16(CLPRIM_CAT(TO_, Y)((int16)(one, two)), 0, to)
#define STORE_EIGHT(eight, to) vstore8(CLPRIM_CAT(TO_BYTES_, Y)(eight), 0, to)
#else
#define STORE_RESULTS(one, two, to) (vstore8(one, 0, to), vstore8(two, 1, to))
#define STORE_EIGHT(eight, to) vstore8(eight, 0, to)
#endif

// What stands behind the sums, moved to its offsets. Undefined ones are not read.
typedef struct {
    const __global int* bias;
    const __global float* scale;
    const __global storage_t(Y)* y_zero;
    const integer_conv_problem* p;
#ifdef FACTOR
    float factor;   // which scales are multiplied by
#endif
} conv_ending;

#define ENDING_ARGUMENTS                                                                                    \
    const __global int *bias, ulong bias_offset, const __global float *scale, ulong scale_offset,           \
        const __global storage_t(Y) * y_zero, ulong y_zero_offset
#define ENDING(p) {bias + bias_offset, scale + scale_offset, y_zero + y_zero_offset, &(p)}

#ifdef FACTOR
#define SCALE_OF(e, o) (AT((e)->scale, (e)->p->scale, o) * (e)->factor)
#define TIMES_FACTOR(e, scales) ((scales) * (e)->factor)
#else
#define SCALE_OF(e, o) AT((e)->scale, (e)->p->scale, o)
#define TIMES_FACTOR(e, scales) scales
#endif

// Of output channel o, counted over all groups.
static inline result ended(const conv_ending* e, int sum, long o)
{
    sum += AT(e->bias, e->p->bias, o);
#if KIND == SUMS
    return sum;
#elif KIND == REALS && defined(CLPRIM_DEVICE_CPU)
    return (float)sum * SCALE_OF(e, o) + AT(e->y_zero, e->p->y_zero, o);
#elif KIND == REALS
    return (float)sum * AT(e->scale, e->p->scale, o);
#else
    const float q = fmin(fmax(rint((float)sum * AT(e->scale, e->p->scale, o)), -65536.0f), 65536.0f);
    return clamp((int)q + (int)AT(e->y_zero, e->p->y_zero, 0), e->p->low, e->p->high);
#endif
}

// What stands behind the sums of eight output channels, read once for all pixels.
typedef struct {
    int8 bias, zero;
    float8 scale, low, high;   // bounds less the zero point
#if KIND == REALS && defined(CLPRIM_DEVICE_CPU)
    float8 offset;
#endif
} vector_ending;

static inline vector_ending ending_of(const conv_ending* e, long o)
{
    vector_ending v = {};
    if (e->p->bias >= 0)
        v.bias = vload8(0, e->bias + o);
#if KIND != SUMS
    v.scale = TIMES_FACTOR(e, e->p->scale == 0 ? (float8)e->scale[0] : vload8(0, e->scale + o));
#endif
#if KIND == REALS && defined(CLPRIM_DEVICE_CPU)
    v.offset = e->p->y_zero > 0 ? vload8(0, e->y_zero + o) : (float8)AT(e->y_zero, e->p->y_zero, 0);
#endif
#if KIND == BYTES
    const int zero = (int)AT(e->y_zero, e->p->y_zero, 0);
    v.zero = zero;
    v.low = (float)(e->p->low - zero);
    v.high = (float)(e->p->high - zero);
#endif
    return v;
}

// Of sums that hold the bias already.
static inline results ended_eight(const vector_ending* v, int8 sums)
{
#if KIND == SUMS
    return sums;
#elif KIND == REALS && defined(CLPRIM_DEVICE_CPU)
    return convert_float8(sums) * v->scale + v->offset;
#elif KIND == REALS
    return convert_float8(sums) * v->scale;
#else
    float8 q = rint(convert_float8(sums) * v->scale);
    q = q > v->low ? q : v->low;   // one instruction each, unlike fmax; what is no number becomes the lowest
    q = q < v->high ? q : v->high;
    return convert_int8(q) + v->zero;
#endif
}

static inline results ended_vector(const conv_ending* e, int8 sums, long o)
{
    const vector_ending v = ending_of(e, o);
    return ended_eight(&v, sums + v.bias);
}
