// Triangles of matrices: one work-item per element, counted in row-major order. -DELEMENT=raw type; operands: out,
// input.
#include "kernels/index/geometry.cl"

__kernel void triangle(__global ELEMENT* out, ulong out_offset, const __global ELEMENT* input, ulong input_offset,
                       ulong rows, ulong columns, long diagonal, int upper, geometry_t g)
{
    index_t i = get_global_id(0);
    if (i >= (index_t)g.numel)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(g, i, o);
    index_t row = i / (index_t)columns;
    long distance = (long)(i - row * (index_t)columns) - (long)(row % (index_t)rows);
    int inside = upper ? distance >= diagonal : distance <= diagonal;
    out[out_offset + o[0]] = inside ? input[input_offset + o[1]] : (ELEMENT)(0);
}
