// Deformable convolution as matrix products over local-memory tiles: the three products of forward and backward.
//
//     forward        y[o, q]      = sum over (tap, c) of  weight[o, c, tap] * column[tap, c, q]
//     columns        gcol[tap, q, c] = sum over o of      weight[o, c, tap] * gy[o, q]
//     weight         gw[o, c, tap] = sum over q of        gy[o, q] * column[tap, c, q]
//
// q counts the output pixels of the whole batch. A work-group of 16 x 16 owns a tile of 64 x 64 results; each
// work-item keeps 4 x 4 of them, 16 apart, in registers. Columns are sampled straight into local memory (never stored).
// Packed weights lie as [group][tap][c][o], in the compute type. Channels are walked in segments of `segment` channels
// that share group and offset group. Any dtype, any strides, any device.
#include "kernels/deform_conv/sample.cl"

#define TILE 64
#define STEP 16

// acc[i][j] += a[k][row + 16 i] * b[k][column + 16 j] over a step.
static inline void multiply_step(real acc[4][4], const __local real a[STEP][TILE], const __local real b[STEP][TILE],
                                 int row, int column)
{
    for (int k = 0; k < STEP; ++k)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                acc[i][j] = fma(a[k][row + 16 * i], b[k][column + 16 * j], acc[i][j]);
}

// Sets up one corner (k of 4) of the sample of tap `tap` at output pixel q for channels like `channel`: its offset in x
// (-1: outside) and its weight, mask included.
static inline void write_corner(const geometry g, const strides xs, const sampling from, int channel, int tap, long q,
                                int k, __local long* at, __local real* weight)
{
    const int pixels = g.out_height * g.out_width, n = q / pixels;
    const sample s = read_sample(g, from, n, channel / (g.channels / g.offset_groups), tap, q % pixels);
    const int inside = corner_inside(g, s, k);
    *at = inside ? n * xs.n + (s.y + (k >> 1)) * xs.h + (s.x + (k & 1)) * xs.w : -1;
    *weight = inside ? corner_weight(s, k) * s.mask : (real)0;
}

static inline real read_column(const __global element* x, long channel_offset, __local const long at[4],
                               __local const real weight[4])
{
    real sum = 0;
    for (int q = 0; q < 4; ++q)
        if (at[q] >= 0)
            sum = fma(weight[q], load(X, x, at[q] + channel_offset), sum);
    return sum;
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void deform_conv_pack_weight(const __global element* w, ulong w_offset, const strides ws, __global real* packed,
                             ulong packed_offset, const geometry g)
{
    w += w_offset;
    packed += packed_offset;
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const long o = get_global_id(0), row = get_global_id(1);   // row = tap * per_group + c
    const int group = get_global_id(2);
    if (o >= outputs || row >= (long)taps * per_group)
        return;
    const int tap = row / per_group, c = row % per_group;
    packed[((long)group * taps * per_group + row) * outputs + o] =
        load(X, w, (group * outputs + o) * ws.n + c * ws.c + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w);
}

// Grid: (tiles of q, tiles of o in a group, groups).
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void deform_conv_forward(const __global element* x, ulong x_offset, const strides xs,
                         const __global element* offset, ulong offset_offset, const strides os,
                         const __global element* mask, ulong mask_offset, const strides ms,
                         const __global real* packed, ulong packed_offset,
                         const __global element* bias, ulong bias_offset, long bias_stride,
                         __global element* y, ulong y_offset, const strides ys, const geometry g, int segment)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    packed += packed_offset;
    bias += bias_offset;
    y += y_offset;
    __local real weights[STEP][TILE], columns[STEP][TILE], corner_weights[TILE][4];
    __local long corners[TILE][4];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, group = get_group_id(2);
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const int pixels = g.out_height * g.out_width;
    const long q0 = get_group_id(0) * (long)TILE, q_end = (long)g.batch * pixels;
    const int o0 = get_group_id(1) * TILE;
    real acc[4][4] = {{0}};
    for (int tap = 0; tap < taps; ++tap)
        for (int c0 = 0; c0 < per_group; c0 += segment) {
            const int c_first = group * per_group + c0;
            barrier(CLK_LOCAL_MEM_FENCE);
            write_corner(g, xs, from, c_first, tap, min(q0 + id / 4, q_end - 1), id % 4, &corners[id / 4][id % 4],
                         &corner_weights[id / 4][id % 4]);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int c1 = 0; c1 < segment; c1 += STEP) {
                for (int i = 0; i < 4; ++i) {
                    const int k = id / TILE + 4 * i, column = id % TILE;
                    const int inside = c1 + k < segment;
                    columns[k][column] = inside ? read_column(x, (c_first + c1 + k) * xs.c, corners[column],
                                                              corner_weights[column]) : (real)0;
                    weights[k][column] = inside && o0 + column < outputs
                        ? packed[(((long)group * taps + tap) * per_group + c0 + c1 + k) * outputs + o0 + column]
                        : (real)0;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                multiply_step(acc, weights, columns, ly, lx);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int o = o0 + ly + 16 * i;
            const long q = q0 + lx + 16 * j;
            if (o >= outputs || q >= q_end)
                continue;
            const int channel = group * outputs + o, pixel = q % pixels;
            const real b = bias_stride >= 0 ? load(X, bias, channel * bias_stride) : (real)0;
            store(X, y, (q / pixels) * ys.n + channel * ys.c + (pixel / g.out_width) * ys.h
                  + (pixel % g.out_width) * ys.w, acc[i][j] + b);
        }
}

// Gradient of the columns of q0 <= q < q0 + count. Grid: (tiles of q, tiles of c in a group * groups, taps).
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void deform_conv_grad_columns(const __global real* packed, ulong packed_offset, const __global element* gy,
                              ulong gy_offset, const strides gs, __global real* gcol, ulong gcol_offset, long q0,
                              int count, const geometry g)
{
    packed += packed_offset;
    gy += gy_offset;
    gcol += gcol_offset;
    __local real a[STEP][TILE], b[STEP][TILE];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, tap = get_group_id(2);
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const int pixels = g.out_height * g.out_width, tiles = (per_group + TILE - 1) / TILE;
    const int group = get_group_id(1) / tiles, c0 = get_group_id(1) % tiles * TILE, r0 = get_group_id(0) * TILE;
    real acc[4][4] = {{0}};
    for (int o0 = 0; o0 < outputs; o0 += STEP) {
        for (int i = 0; i < 4; ++i) {
            const int k = id % STEP, c = c0 + id / STEP + 16 * i;
            b[k][c - c0] = c < per_group && o0 + k < outputs
                ? packed[(((long)group * taps + tap) * per_group + c) * outputs + o0 + k] : (real)0;
            const int k2 = id / TILE + 4 * i, r = r0 + id % TILE;
            const long q = q0 + r;
            const int pixel = q % pixels;
            a[k2][id % TILE] = r < count && o0 + k2 < outputs
                ? load(X, gy, (q / pixels) * gs.n + (group * outputs + o0 + k2) * gs.c + (pixel / g.out_width) * gs.h
                       + (pixel % g.out_width) * gs.w) : (real)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(acc, a, b, ly, lx);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int r = r0 + ly + 16 * i, c = c0 + lx + 16 * j;
            if (r < count && c < per_group)
                gcol[((long)tap * count + r) * g.channels + group * per_group + c] = acc[i][j];
        }
}

// Partial gradient of the weight over q_begin(split) <= q < q_end(split): [split][tap][channel][outputs of its group].
// Grid: (tiles of o in a group, tiles of channels, taps * splits); a channel tile lies in one segment.
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void deform_conv_grad_weight(const __global element* x, ulong x_offset, const strides xs,
                             const __global element* offset, ulong offset_offset, const strides os,
                             const __global element* mask, ulong mask_offset, const strides ms,
                             const __global element* gy, ulong gy_offset, const strides gs,
                             __global real* partial, ulong partial_offset, const geometry g, int segment,
                             int q_per_split)
{
    x += x_offset;
    const sampling from = {offset + offset_offset, mask + mask_offset, os, ms};
    gy += gy_offset;
    partial += partial_offset;
    __local real a[STEP][TILE], b[STEP][TILE], corner_weights[STEP][4];
    __local long corners[STEP][4];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx;
    const int taps = g.kernel_h * g.kernel_w, tap = get_group_id(2) % taps, split = get_group_id(2) / taps;
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups;
    const int pixels = g.out_height * g.out_width, tiles = (segment + TILE - 1) / TILE;
    const int segment_begin = get_group_id(1) / tiles * segment;
    const int c0 = segment_begin + get_group_id(1) % tiles * TILE, c_end = segment_begin + segment;
    const int o0 = get_group_id(0) * TILE, group = c0 / per_group;
    const long q_end = min((split + 1) * (long)q_per_split, (long)g.batch * pixels);
    real acc[4][4] = {{0}};
    for (long q0 = split * (long)q_per_split; q0 < q_end; q0 += STEP) {
        if (id < 4 * STEP)
            write_corner(g, xs, from, c0, tap, min(q0 + id / 4, q_end - 1), id % 4, &corners[id / 4][id % 4],
                         &corner_weights[id / 4][id % 4]);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < 4; ++i) {
            const int k = id / TILE + 4 * i, c = c0 + id % TILE, o = o0 + id % TILE;
            const long q = q0 + k;
            const int pixel = q % pixels;
            b[k][id % TILE] =
                q < q_end && c < c_end ? read_column(x, c * xs.c, corners[k], corner_weights[k]) : (real)0;
            a[k][id % TILE] = q < q_end && o < outputs
                ? load(X, gy, (q / pixels) * gs.n + (group * outputs + o) * gs.c + (pixel / g.out_width) * gs.h
                       + (pixel % g.out_width) * gs.w) : (real)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(acc, a, b, lx, ly);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int o = o0 + lx + 16 * i, c = c0 + ly + 16 * j;
            if (o < outputs && c < c_end)
                partial[(((long)split * taps + tap) * g.channels + c) * outputs + o] = acc[i][j];
        }
}

// Sum of the partial weight gradients, in order. One work-item per element of the weight.
__kernel void deform_conv_sum_weight(const __global real* partial, ulong partial_offset, int splits,
                                     __global element* gw, ulong gw_offset, const strides ws, const geometry g)
{
    partial += partial_offset;
    gw += gw_offset;
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const long i = get_global_id(0), count = (long)taps * g.channels * outputs;
    if (i >= count)
        return;
    real sum = 0;
    for (int split = 0; split < splits; ++split)
        sum += partial[split * count + i];
    const int o = i % outputs, channel = i / outputs % g.channels, tap = i / outputs / g.channels;
    store(X, gw, (long)(channel / per_group * outputs + o) * ws.n + (channel % per_group) * ws.c
          + (tap / g.kernel_w) * ws.h + (tap % g.kernel_w) * ws.w, sum);
}

// gb[o] = sum over q of gy[o, q]. A work-group of 64 owns one output channel.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void deform_conv_grad_bias(const __global element* gy, ulong gy_offset, const strides gs, __global element* gb,
                           ulong gb_offset, long gb_stride, const geometry g)
{
    gy += gy_offset;
    gb += gb_offset;
    __local real sums[64];
    const int id = get_local_id(0), o = get_group_id(0), pixels = g.out_height * g.out_width;
    real sum = 0;
    for (int n = 0; n < g.batch; ++n) {
        real image = 0;
        for (int p = id; p < pixels; p += 64)
            image += load(X, gy, n * gs.n + o * gs.c + (p / g.out_width) * gs.h + (p % g.out_width) * gs.w);
        sum += image;
    }
    sums[id] = sum;
    for (int half_width = 32; half_width > 0; half_width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < half_width)
            sums[id] += sums[id + half_width];
    }
    if (id == 0)
        store(X, gb, o * gb_stride, sums[0]);
}
