// Reports elements that do not lie within [low, high]. Built with -DX=<dtype of the elements> -DLIMIT=<type of the
// limits>.
#include "core/dtype.cl"
#include "core/errors.cl"

__kernel void within(const __global storage_t(X)* x, ulong x_offset, ulong count, LIMIT low, LIMIT high,
                     __global int* errors, int operator_code)
{
    x += x_offset;
    const ulong i = get_global_id(0);
    if (i >= count)
        return;
    const LIMIT value = load(X, x, i);
    if (!(value >= low && value <= high))
        clprim_value_error(errors, operator_code);
}
