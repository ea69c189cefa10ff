// What the implicit products for GPUs read beside the tensors. Options: -DX=<dtype>.
#include "core/dtype.cl"
#include "kernels/conv/gpu_problem.cl"
#include "kernels/conv/implicit_problem.cl"

// Table of k, with zeros behind its end for a slab that reaches over it: element relative to tap 0 of channel 0, steps
// along d, h, w.
__kernel void conv_tap_table(__global int* table, ulong table_offset, gpu_conv_problem p, int entries)
{
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], k = get_global_id(0);
    if (k >= entries)
        return;
    const int c = p.taps_inner ? k / taps : k % p.depth, tap = p.taps_inner ? k % taps : k / p.depth;
    const int z = tap / (p.taps[2] * p.taps[1]) * p.step[0], y = tap / p.taps[2] % p.taps[1] * p.step[1];
    const int x = tap % p.taps[2] * p.step[2];
    const int4 entry = {c * p.source_channel + z * p.source_axis[0] + y * p.source_axis[1] + x * p.source_axis[2],
                        z, y, x};
    vstore4(k < p.total ? entry : (int4)0, k, table + table_offset);
}

// Table of gpu_matrix.cl: for eight k, at one tap, bytes from tap 0 of channel 0 and the tap's bits of inner axes.
__kernel void conv_matrix_table(__global int2* table, ulong table_offset, gpu_conv_problem p, int planes, int entries)
{
    const int entry = get_global_id(0), k = 8 * entry, tap = k / p.depth;
    if (entry >= entries)
        return;
    table += table_offset / 2;
    if (k >= p.total) {
        table[entry] = (int2)(0, 0);
        return;
    }
    const int z = tap / (p.taps[2] * p.taps[1]), y = tap / p.taps[2] % p.taps[1], x = tap % p.taps[2];
    const int element = k % p.depth * p.source_channel + z * p.step[0] * p.source_axis[0] +
                        y * p.step[1] * p.source_axis[1] + x * p.step[2] * p.source_axis[2];
    table[entry] = (int2)(2 * element, 1 << (TAP_BITS_X + x) | 1 << (TAP_BITS_Y + y) |
                                           (planes ? 1 << (TAP_BITS_Z + z) : 0));
}

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
