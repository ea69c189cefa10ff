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
    EACH_ELEMENT(i)
    {
        real a = load(T, input, i);
#if LISTS > 2
#ifdef OP_mul_number
        real b = load(T, second, 0);
#else
        real b = load(T, second, i);
#endif
#endif
#if LISTS > 3
        real c = load(T, third, i);
#endif
        store(T, out, i, VALUE);
    }
}
