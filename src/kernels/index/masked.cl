// masked_fill: one work-item per position. -DELEMENT=raw type; operands: self, mask, value.
#include "kernels/index/geometry.cl"

__kernel void masked_fill(__global ELEMENT* self, ulong self_offset, const __global uchar* mask, ulong mask_offset,
                          const __global ELEMENT* value, ulong value_offset, geometry_t g)
{
    index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    if (mask[mask_offset + o[1]])
        self[self_offset + o[0]] = value[value_offset + o[2]];
}
