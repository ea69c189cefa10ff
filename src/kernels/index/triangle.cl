// Triangles of matrices: one work-item per element, or on GPUs EACH (geometry.cl), with -DQUADS neighbours of both.
// -DELEMENT=raw type; operands: out, input, and how far right of the main diagonal an element is.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"

#define FOUR(type) CLPRIM_CAT(type, 4)

__kernel void triangle(__global ELEMENT* out, ulong out_offset, const __global ELEMENT* input, ulong input_offset,
                       long diagonal, int upper, geometry_t g)
{
    const index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    out += out_offset;
    input += input_offset;

    ELEMENT values[EACH];
    bool inside[EACH];
    const offset_t edge = diagonal;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const offset_t distance = STEPPED(g, o, 2, e);
        inside[e] = upper ? distance >= edge : distance <= edge;
        values[e] = (ELEMENT)(0);
    }
#ifdef QUADS
    if (inside[0] || inside[3]) {
        const FOUR(ELEMENT) v = *(const __global FOUR(ELEMENT)*)(input + o[1]);
        values[0] = inside[0] ? v.x : 0;
        values[1] = inside[1] ? v.y : 0;
        values[2] = inside[2] ? v.z : 0;
        values[3] = inside[3] ? v.w : 0;
    }
    *(__global FOUR(ELEMENT)*)(out + o[0]) = (FOUR(ELEMENT))(values[0], values[1], values[2], values[3]);
#else
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (inside[e] && HAS(g, i, e))
            values[e] = input[STEPPED(g, o, 1, e)];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        if (HAS(g, i, e))
            out[STEPPED(g, o, 0, e)] = values[e];
#endif
}
