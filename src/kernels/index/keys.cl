// Keys of an advanced index: element offsets, summed over the index tensors. One work-item per position.
// -DINDEX=int64|int32 [-DADD]; operands: keys, index.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"

__kernel void add_keys(__global long* keys, ulong keys_offset, const __global storage_t(INDEX)* index,
                       ulong index_offset, axis_t axis, __global int* errors, int operator_code, geometry_t g)
{
    index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    __global long* key = keys + keys_offset + o[0];
    long at;
    const bool good = reach(axis, index[index_offset + o[1]], errors, operator_code, &at);
#ifdef ADD
    long before = *key;
#else
    long before = 0;
#endif
    *key = good && before >= 0 ? before + at : -1;
}
