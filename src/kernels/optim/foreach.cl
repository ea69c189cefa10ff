// Pointwise operators over lists of tensors: lists are out, a, b, c. -DT=dtype -DLISTS=n -DOP_<name> [-DWIDE]
#include "kernels/optim/multi_tensor.cl"

#if defined(OP_sqrt)
#define VALUE sqrt(a)
#elif defined(OP_rsqrt)
#define VALUE (1 / sqrt(a))
#elif defined(OP_neg)
#define VALUE (-a)
#elif defined(OP_abs)
#define VALUE fabs(a)
#elif defined(OP_reciprocal)
#define VALUE (1 / a)
#elif defined(OP_exp)
#define VALUE exp(a)
#elif defined(OP_sign)
#define VALUE (real)((a > 0) - (a < 0))
#elif defined(OP_zero)
#define VALUE (real)0
#elif defined(OP_add_scalar)
#define VALUE (a + s)
#elif defined(OP_sub_scalar)
#define VALUE (a - s)
#elif defined(OP_mul_scalar)
#define VALUE (a * s)
#elif defined(OP_div_scalar)
#define VALUE (a / s)
#elif defined(OP_maximum_scalar)
#define VALUE (a < s ? s : a)   // a NaN stays
#elif defined(OP_minimum_scalar)
#define VALUE (a > s ? s : a)
#elif defined(OP_pow_scalar)
#define VALUE pow(a, s)
#elif defined(OP_add_list)
#define VALUE (a + s * b)
#elif defined(OP_sub_list)
#define VALUE (a - s * b)
#elif defined(OP_mul_list) || defined(OP_mul_number)
#define VALUE (a * b)
#elif defined(OP_div_list)
#define VALUE (a / b)
#elif defined(OP_maximum_list)
#define VALUE (a != a || a > b ? a : b)
#elif defined(OP_minimum_list)
#define VALUE (a != a || a < b ? a : b)
#elif defined(OP_lerp)
#define VALUE LERP(a, b, s)
#elif defined(OP_copy)
#define VALUE b
#elif defined(OP_addcmul)
#define VALUE (a + s * b * c)
#elif defined(OP_addcdiv)
#define VALUE (a + s * (b / c))
#elif defined(OP_lerp_list)
#define VALUE LERP(a, b, c)
#endif
#define LERP(a, b, w) (fabs(w) < (real)0.5 ? (a) + (w) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (w)))

#ifdef CLPRIM_DEVICE_CPU
#define AHEAD 1
#else
#define AHEAD 4
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void foreach(TABLE_PARAMETERS)
{
    FIND_TENSOR
    const real s = SCALAR(entry[1]);
    __global storage_t(T)* out = OPERAND(storage_t(T), 0);
    const __global storage_t(T)* input = OPERAND(storage_t(T), 1);
#if LISTS > 2
    const __global storage_t(T)* second = OPERAND(storage_t(T), 2);
#endif
#if LISTS > 3
    const __global storage_t(T)* third = OPERAND(storage_t(T), 3);
#endif
#ifdef OP_mul_number
#define SECOND(i) 0
#else
#define SECOND(i) (i)
#endif
    // On GPUs a few elements are on their way at once: lists may be the same tensors, so compilers keep loads behind
    // stores.
    for (ulong i = first + get_local_id(0); i < end; i += AHEAD * GROUP) {
        real as[AHEAD], bs[AHEAD] = {0}, cs[AHEAD] = {0};   // those of lists that are not there
        #pragma unroll
        for (uint k = 0; k < AHEAD; ++k) {
            const ulong at = AHEAD > 1 ? min(i + k * GROUP, end - 1) : i;
            as[k] = load(T, input, at);
#if LISTS > 2
            bs[k] = load(T, second, SECOND(at));
#endif
#if LISTS > 3
            cs[k] = load(T, third, at);
#endif
        }
        #pragma unroll
        for (uint k = 0; k < AHEAD; ++k) {
            const real a = as[k], b = bs[k], c = cs[k];
            if (AHEAD == 1 || i + k * GROUP < end)
                store(T, out, i + k * GROUP, VALUE);
        }
    }
}
