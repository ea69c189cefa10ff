// Moves of plain bytes through one index: gather, index_select, index (gather form), scatter, index_copy (scatter form)
// and flips (no index). One work-item moves one ELEMENT; wide rows come as uint4.
// -DELEMENT=uchar|ushort|uint|ulong|uint4, -DINDEX=int64|int32 (absent: none), -DSCATTER; operands: out, source, index.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"

__kernel void move(__global ELEMENT* out, ulong out_offset, const __global ELEMENT* source, ulong source_offset,
#ifdef INDEX
                   const __global storage_t(INDEX)* index, ulong index_offset, axis_t axis,
                   __global int* errors, int operator_code,
#endif
                   geometry_t g)
{
    index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    out += out_offset;
    source += source_offset;
#ifdef INDEX
    long at;
    if (!reach(axis, index[index_offset + o[2]], errors, operator_code, &at))
        return;
#ifdef SCATTER
    out += at;
#else
    source += at;
#endif
#endif
    out[o[0]] = source[o[1]];
}
