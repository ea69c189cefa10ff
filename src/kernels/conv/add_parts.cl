// dw = sum of the parts of a weight gradient, each [group, output][row] in reals, added in order.
#include "core/dtype.cl"
#include "kernels/conv/implicit_problem.cl"

__kernel void conv_add_parts(const __global compute_t(T)* sums, ulong sums_offset, __global storage_t(T)* dw,
                             ulong dw_offset, long parts, long in_order, pack_problem p)
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], length = p.depth * taps, size = p.groups * p.rows * length;
    const long i = get_global_id(0);
    if (i >= size)
        return;
    sums += sums_offset + i;
    compute_t(T) sum = 0;
    for (long part = 0; part < parts; ++part)
        sum += sums[part * size];
    dw += dw_offset;
    if (in_order) {
        store(T, dw, i, sum);
        return;
    }
    const long row = i % length, c = p.taps_inner ? row / taps : row % p.depth;
    const long tap = p.taps_inner ? row % taps : row / p.depth;
    store(T, dw, i / length * p.row_stride + c * p.depth_stride + tap % p.taps[2] * p.tap_strides[2] +
                     tap / p.taps[2] % p.taps[1] * p.tap_strides[1] + tap / (p.taps[2] * p.taps[1]) * p.tap_strides[0],
          sum);
}
