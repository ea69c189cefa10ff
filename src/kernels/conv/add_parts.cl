// dw = sum of the parts of a weight gradient, each [group, output][row] in reals, added in order.
//
// -DLOOK_AGAIN: in the parts numbers of x have been multiplied by zeros that stand for no pixel of dy, which is NaN
// where x is infinite or NaN. So what comes out as NaN is summed again by the definition.
#include "core/dtype.cl"
#include "kernels/conv/implicit_problem.cl"

#ifdef LOOK_AGAIN
#include "kernels/conv/problem.cl"

// What lies outside x is zeros, as for the matrix engines. A NaN that stays one is soon found, as a rule.
static compute_t(T) sum_again(const __global storage_t(T)* x, const __global storage_t(T)* dy, const conv_problem* q,
                              int output, int channel, int tap)
{
    const int width = q->kernel_size[2], height = q->kernel_size[1], rows = q->out[1], planes = q->out[0];
    const int tap_x = tap % width, tap_y = tap / width % height, tap_z = tap / (width * height);
    x += (output / q->out_channels * q->in_channels + channel) * q->x_strides[1];
    dy += output * q->y_strides[1];
    compute_t(T) sum = 0;
    for (int row = 0; row < q->batch * planes * rows && !isnan(sum); ++row) {
        const int plane = row / rows, y = row % rows, z = plane % planes, n = plane / planes;
        const int from_y = y * q->stride[1] - q->pad[1] + tap_y * q->dilation[1];
        const int from_z = z * q->stride[0] - q->pad[0] + tap_z * q->dilation[0];
        const int there = (uint)from_y < (uint)q->in[1] && (uint)from_z < (uint)q->in[0];
        const long x_row = n * q->x_strides[0] + from_z * q->x_strides[2] + from_y * q->x_strides[3];
        const long dy_row = n * q->y_strides[0] + z * q->y_strides[2] + y * q->y_strides[3];
        compute_t(T) row_sum = 0;
        for (int i = 0; i < q->out[2]; ++i) {
            const int from_x = i * q->stride[2] - q->pad[2] + tap_x * q->dilation[2];
            const int inside = there && (uint)from_x < (uint)q->in[2];
            row_sum += (inside ? load(T, x, x_row + from_x * q->x_strides[4]) : 0) *
                       load(T, dy, dy_row + i * q->y_strides[4]);
        }
        sum += row_sum;
    }
    return sum;
}
#endif

__kernel void conv_add_parts(const __global compute_t(T)* sums, ulong sums_offset, __global storage_t(T)* dw,
                             ulong dw_offset, long parts, long in_order,
#ifdef LOOK_AGAIN
                             pack_problem p, const __global storage_t(T)* x, ulong x_offset,
                             const __global storage_t(T)* dy, ulong dy_offset, conv_problem q)
#else
                             pack_problem p)
#endif
{
    const long taps = p.taps[0] * p.taps[1] * p.taps[2], length = p.depth * taps, size = p.groups * p.rows * length;
    const long i = get_global_id(0);
    if (i >= size)
        return;
    sums += sums_offset + i;
    compute_t(T) sum = 0;
    for (long part = 0; part < parts; ++part)
        sum += sums[part * size];
#ifdef LOOK_AGAIN   // rows are (tap, channel)
    if (isnan(sum))
        sum = sum_again(x + x_offset, dy + dy_offset, &q, i / length, i % length % p.depth, i % length / p.depth);
#endif
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
