// Keys of an advanced index: offsets, summed over the index tensors. One work-item per position, or on GPUs EACH
// (geometry.cl), with -DQUADS neighbours of both. -DINDEX=int64|int32 [-DADD] [-DNEAR]; operands: keys, index.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"

__kernel void add_keys(__global long* keys, ulong keys_offset, const __global storage_t(INDEX)* index,
                       ulong index_offset, axis_t axis, __global int* errors, int operator_code, geometry_t g)
{
    const index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    keys += keys_offset;
    index += index_offset;

    long at[EACH], key[EACH];
    bool good[EACH];
#ifdef QUADS
    load_indices(at, index + o[1])
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)   // what is not there repeats the first
        at[e] = index[HAS(g, i, e) ? STEPPED(g, o, 1, e) : o[1]];
#endif
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        reached_t reached;
        good[e] = reach_quietly(axis, at[e], &reached);
        key[e] = good[e] ? reached : -1;
    }
    report_bad(axis, at, good, EACH, errors, operator_code);
#ifdef ADD
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const long before = keys[HAS(g, i, e) ? STEPPED(g, o, 0, e) : o[0]];
        key[e] = good[e] && before >= 0 ? before + key[e] : -1;
    }
#endif
#ifdef QUADS
    *(__global long4*)(keys + o[0]) = (long4)(key[0], key[1], key[2], key[3]);
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (HAS(g, i, e))
            keys[STEPPED(g, o, 0, e)] = key[e];
#endif
}
