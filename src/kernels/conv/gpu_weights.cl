// Weights in the order in which the implicit products for GPUs read them. Options: -DX=<dtype>.
#include "core/dtype.cl"
#include "kernels/conv/implicit_problem.cl"

// Weights as [group, row][k], k in the order of the table, for the taps of one launch. A work-item moves all taps of
// one channel (global id 0) of one row (global id 1), so that nothing is divided for each element.
__kernel void conv_gather_weights(const __global storage_t(X)* w, ulong w_offset, __global storage_t(X)* packed,
                                  ulong packed_offset, implicit_problem p, pack_problem q)
{
    const uint c = get_global_id(0), line = get_global_id(1), depth = p.depth, rows = p.rows;
    if (c >= depth || line >= rows * (uint)p.groups)
        return;
    const uint group = line / rows, row = line - group * rows;
    const int nz = p.taps[0], ny = p.taps[1], nx = p.taps[2];
    const long step = p.taps_inner ? 1 : depth, x_step = p.tap_period[2] * q.tap_strides[2];
    w += w_offset + group * q.group_stride + row * q.row_stride + c * q.depth_stride +
         p.tap_first[0] * q.tap_strides[0] + p.tap_first[1] * q.tap_strides[1] + p.tap_first[2] * q.tap_strides[2];
    packed += packed_offset + (ulong)line * depth * (nz * ny * nx) + (p.taps_inner ? c * (nz * ny * nx) : c);
    for (int z = 0; z < nz; ++z)
        for (int y = 0; y < ny; ++y) {
            const __global storage_t(X)* from = w + z * p.tap_period[0] * q.tap_strides[0] +
                                                y * p.tap_period[1] * q.tap_strides[1];
            for (int x = 0; x < nx; ++x, from += x_step, packed += step)
                *packed = *from;
        }
}

// Weights as [group][row of taps][k][row of the result] for gpu_matrix_blocks.cl, `lines` k for each row of taps, of
// which tap x begins at x*depth, and `width` rows; what lies beyond is zero. `axes`: of the tensor, of rows and columns
// of taps. A work-item moves the taps of one row (global id 1: group, row of taps) of one channel (global id 2) to one
// row of the result (global id 0).
__kernel void conv_block_weights(const __global storage_t(X)* w, ulong w_offset, __global storage_t(X)* packed,
                                 ulong packed_offset, implicit_problem p, pack_problem q, int2 axes, int lines,
                                 int width)
{
    const int row = get_global_id(0), c = get_global_id(2), depth = p.depth, taps = p.taps[2], rows_of_taps = p.taps[1];
    if (row >= width || c >= depth)
        return;
    const int line = get_global_id(1), group = line / rows_of_taps, y = line - group * rows_of_taps;
    const bool inside = row < p.rows && c < q.depth;
    const long row_stride = axes.x == 1 ? q.tap_strides[1] : q.tap_strides[2];   // constant places stay in registers
    const long tap_stride = axes.y == 1 ? q.tap_strides[1] : q.tap_strides[2], step = p.tap_period[2] * tap_stride;
    w += w_offset;
    if (inside)
        w += group * q.group_stride + row * q.row_stride + c * q.depth_stride + p.tap_first[2] * tap_stride +
             (p.tap_first[1] + y * p.tap_period[1]) * row_stride;
    packed += packed_offset + ((ulong)line * lines + c) * width + row;
    int k = c;
    for (int x = 0; x < taps; ++x, k += depth, w += step, packed += (long)depth * width)
        *packed = inside ? *w : (storage_t(X))0;
    for (; k < lines; k += depth, packed += (long)depth * width)   // the last block's rest
        *packed = 0;
}
