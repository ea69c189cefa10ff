// masked_fill: one work-item per position, or on GPUs EACH (geometry.cl): with -DQUADS neighbours in self and mask,
// with -DSTILL of one value. -DELEMENT=raw type; operands: self, mask, value.
#include "kernels/index/geometry.cl"

__kernel void masked_fill(__global ELEMENT* self, ulong self_offset, const __global uchar* mask, ulong mask_offset,
                          const __global ELEMENT* value, ulong value_offset, geometry_t g)
{
    const index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    self += self_offset;
    mask += mask_offset;
    value += value_offset;

    uchar set[EACH];
#ifdef QUADS
    const uchar4 v = *(const __global uchar4*)(mask + o[1]);
    set[0] = v.x; set[1] = v.y; set[2] = v.z; set[3] = v.w;
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        set[e] = HAS(g, i, e) ? mask[STEPPED(g, o, 1, e)] : 0;
#endif
#ifdef STILL
    const ELEMENT filling = value[o[2]];
#define FILLING(e) filling
#else
#define FILLING(e) value[STEPPED(g, o, 2, e)]
#endif
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (set[e])
            self[STEPPED(g, o, 0, e)] = FILLING(e);
}
