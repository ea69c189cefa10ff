// Keys of an advanced index of two tensors in one launch, on CPUs: as keys.cl makes them in two. -DINDEX=int64|int32;
// operands: keys, first, second.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"

__kernel void add_two_keys(__global long* keys, ulong keys_offset, const __global storage_t(INDEX)* first,
                           ulong first_offset, const __global storage_t(INDEX)* second, ulong second_offset,
                           axis_t first_axis, axis_t second_axis, __global int* errors, int operator_code, geometry_t g)
{
    const index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    const long at[1] = {first[first_offset + o[1]]}, other[1] = {second[second_offset + o[2]]};
    reached_t reached, further;
    const bool good[1] = {reach_quietly(first_axis, at[0], &reached)};
    const bool other_good[1] = {reach_quietly(second_axis, other[0], &further)};
    report_bad(first_axis, at, good, 1, errors, operator_code);
    report_bad(second_axis, other, other_good, 1, errors, operator_code);
    keys[keys_offset + o[0]] = good[0] && other_good[0] ? (long)reached + further : -1;
}
