// Deformable convolution as matrix products over local-memory tiles: the three products of forward and backward.
//
//     forward        y[o, q]      = sum over (tap, c) of  weight[o, c, tap] * column[tap, c, q]
//     columns        gcol[tap, q, c] = sum over o of      weight[o, c, tap] * gy[o, q]
//     weight         gw[o, c, tap] = sum over q of        gy[o, q] * column[tap, c, q]
//
// q counts the output pixels of the whole batch. A work-group of 16 x 16 owns a tile of 64 x 64 results; each
// work-item keeps 4 x 4 neighbouring ones in registers, and reads quads of both factors from local memory. Columns are
// sampled straight into local memory (never stored), by work-items that keep one pixel's corners in registers.
// Packed weights lie as [group][tap][c][o], in the compute type. Channels are walked in segments of `segment` channels
// that share group and offset group. Any dtype, any strides, any device. -DOFFSET=int|long holds every distance within
// x and y and the number of pixels.
#include "kernels/deform_conv/sample.cl"
#include "core/quad.cl"

#define TILE 64
#define STEP 16
#define PITCH (TILE / 4 + 1)   // quads from one k to the next, shifted against bank conflicts
#define AT(slab, k, i) ((__local real*)(slab))[(k) * (PITCH * 4) + (i)]
#define EACH(i) _Pragma("unroll") for (int i = 0; i < 4; ++i)

typedef quad_t(X) real4;

// acc[i] += a[k][4 row + i] * b[k][4 column + (0, 1, 2, 3)] over a step.
static inline void multiply_step(real4 acc[4], const __local real4* a, const __local real4* b, int row, int column)
{
#pragma unroll
    for (int k = 0; k < STEP; ++k) {
        const real4 left = a[k * PITCH + row], right = b[k * PITCH + column];
        acc[0] = fma((real4)left.x, right, acc[0]);
        acc[1] = fma((real4)left.y, right, acc[1]);
        acc[2] = fma((real4)left.z, right, acc[2]);
        acc[3] = fma((real4)left.w, right, acc[3]);
    }
}

#define RESULT(i, j) ((j) == 0 ? acc[i].x : (j) == 1 ? acc[i].y : (j) == 2 ? acc[i].z : acc[i].w)

// Sets up one corner (k of 4) of the sample of tap `tap` at the output pixel `place` (image, pixel) for channels like
// `channel`: its offset in x (-1: outside) and its weight, mask included.
static inline void write_corner(const geometry g, const strides xs, const sampling from, int channel, int tap,
                                int2 place, int k, __local OFFSET* at, __local real* weight)
{
    const int n = place.x;
    const sample s = read_sample(g, from, n, channel / (g.channels / g.offset_groups), tap, place.y);
    const int inside = corner_inside(g, s, k);
    *at = inside ? n * (OFFSET)xs.n + (s.y + (k >> 1)) * (OFFSET)xs.h + (s.x + (k & 1)) * (OFFSET)xs.w : -1;
    *weight = inside ? corner_weight(s, k) * s.mask : (real)0;
}

// The four corners of one sample, in registers: the first element of the channel stands for one that is outside.
typedef struct {
    OFFSET at[4];
    int inside[4];
    real weight[4];
} corners_of;

static inline corners_of read_corners(const __local OFFSET at[4], const __local real weight[4])
{
    corners_of c;
    EACH(q) {
        c.inside[q] = at[q] >= 0;
        c.at[q] = c.inside[q] ? at[q] : 0;
        c.weight[q] = weight[q];
    }
    return c;
}

static inline real read_column(const __global element* x, OFFSET channel_offset, const corners_of* c)
{
    real corner[4], sum = 0;
    EACH(q) corner[q] = load(X, x, c->at[q] + channel_offset);
    EACH(q) sum = fma(c->weight[q], c->inside[q] ? corner[q] : (real)0, sum);
    return sum;
}

// Image and pixel in it.
static inline int2 place_of(OFFSET q, int pixels)
{
    const int n = q / pixels;
    return (int2)(n, (int)(q - n * (OFFSET)pixels));
}

static inline OFFSET pixel_offset(int2 place, const geometry g, const strides ys)
{
    const int row = place.y / g.out_width;
    return place.x * (OFFSET)ys.n + row * (OFFSET)ys.h + (place.y - row * g.out_width) * (OFFSET)ys.w;
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void deform_conv_pack_weight(const __global element* w, ulong w_offset, const strides ws, __global real* packed,
                             ulong packed_offset, const geometry g)
{
    w += w_offset;
    packed += packed_offset;
    const uint per_group = (uint)g.channels / (uint)g.groups, outputs = (uint)g.out_channels / (uint)g.groups;
    const uint rows = (uint)(g.kernel_h * g.kernel_w) * per_group;
    const uint o = get_global_id(0), row = get_global_id(1), group = get_global_id(2);   // row = tap * per_group + c
    if (o >= outputs || row >= rows)
        return;
    const uint tap = row / per_group, c = row - tap * per_group;
    const uint y = tap / (uint)g.kernel_w, x = tap - y * (uint)g.kernel_w;
    packed[((long)group * rows + row) * outputs + o] =
        load(X, w, (group * outputs + o) * ws.n + c * ws.c + y * ws.h + x * ws.w);
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
    __local real4 weights[STEP * PITCH], columns[STEP * PITCH];
    __local real corner_weights[TILE][4];
    __local OFFSET corners[TILE][4];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, group = get_group_id(2);
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const int pixels = g.out_height * g.out_width;
    const OFFSET q0 = get_group_id(0) * (OFFSET)TILE, q_end = g.batch * (OFFSET)pixels;
    const int o0 = get_group_id(1) * TILE;
    const int2 place = place_of(min(q0 + id / 4, q_end - 1), pixels);
    real4 acc[4] = {(real4)0, (real4)0, (real4)0, (real4)0};
    for (int tap = 0; tap < taps; ++tap)
        for (int c0 = 0; c0 < per_group; c0 += segment) {
            const int c_first = group * per_group + c0;
            barrier(CLK_LOCAL_MEM_FENCE);
            write_corner(g, xs, from, c_first, tap, place, id % 4, &corners[id / 4][id % 4],
                         &corner_weights[id / 4][id % 4]);
            barrier(CLK_LOCAL_MEM_FENCE);
            const int line = id % TILE, output = o0 + line < outputs;
            const corners_of mine = read_corners(corners[line], corner_weights[line]);
            const __global real* from_weights =
                packed + ((((long)group * taps + tap) * per_group + c0) * outputs + o0 + (output ? line : 0));
            for (int c1 = 0; c1 < segment; c1 += STEP) {
                EACH(i) {
                    const int k = id / TILE + 4 * i, inside = c1 + k < segment, c = inside ? c1 + k : 0;
                    const real column = read_column(x, (c_first + c) * (OFFSET)xs.c, &mine);
                    const real weight = from_weights[c * outputs];
                    AT(columns, k, line) = inside ? column : (real)0;
                    AT(weights, k, line) = inside && output ? weight : (real)0;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                multiply_step(acc, weights, columns, ly, lx);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
        }
    EACH(j) {
        const OFFSET q = q0 + 4 * lx + j;
        if (q >= q_end)
            break;
        const OFFSET at = pixel_offset(place_of(q, pixels), g, ys);
        EACH(i) {
            const int o = o0 + 4 * ly + i, channel = group * outputs + o;
            if (o >= outputs)
                break;
            const real b = bias_stride >= 0 ? load(X, bias, channel * bias_stride) : (real)0;
            store(X, y, at + channel * (OFFSET)ys.c, RESULT(i, j) + b);
        }
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
    __local real4 a[STEP * PITCH], b[STEP * PITCH];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx, tap = get_group_id(2);
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups, taps = g.kernel_h * g.kernel_w;
    const int pixels = g.out_height * g.out_width, tiles = (per_group + TILE - 1) / TILE;
    const int group = get_group_id(1) / tiles, c0 = get_group_id(1) % tiles * TILE, r0 = get_group_id(0) * TILE;
    real4 acc[4] = {(real4)0, (real4)0, (real4)0, (real4)0};
    const int r_mine = r0 + id % TILE;
    gy += pixel_offset(place_of((OFFSET)q0 + min(r_mine, count - 1), pixels), g, gs);
    packed += ((long)group * taps + tap) * per_group * outputs;
    for (int o0 = 0; o0 < outputs; o0 += STEP) {
        EACH(i) {
            const int k = id % STEP, c = c0 + id / STEP + 16 * i;
            const int wanted = c < per_group && o0 + k < outputs;
            const real weight = packed[wanted ? c * outputs + o0 + k : 0];
            AT(b, k, c - c0) = wanted ? weight : (real)0;
            const int k2 = id / TILE + 4 * i, there = r_mine < count && o0 + k2 < outputs;
            const real v = load(X, gy, (group * outputs + (there ? o0 + k2 : 0)) * (OFFSET)gs.c);
            AT(a, k2, id % TILE) = there ? v : (real)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(acc, a, b, ly, lx);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    EACH(i)
        EACH(j) {
            const int r = r0 + 4 * ly + i, c = c0 + 4 * lx + j;
            if (r < count && c < per_group)
                gcol[((long)tap * count + r) * g.channels + group * per_group + c] = RESULT(i, j);
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
    __local real4 a[STEP * PITCH], b[STEP * PITCH];
    __local real corner_weights[STEP][4];
    __local OFFSET corners[STEP][4], grad_at[STEP];
    const int lx = get_local_id(0), ly = get_local_id(1), id = ly * 16 + lx;
    const int taps = g.kernel_h * g.kernel_w, tap = get_group_id(2) % taps, split = get_group_id(2) / taps;
    const int per_group = g.channels / g.groups, outputs = g.out_channels / g.groups;
    const int pixels = g.out_height * g.out_width, tiles = (segment + TILE - 1) / TILE;
    const int segment_begin = get_group_id(1) / tiles * segment;
    const int c0 = segment_begin + get_group_id(1) % tiles * TILE, c_end = segment_begin + segment;
    const int o0 = get_group_id(0) * TILE, group = c0 / per_group;
    const OFFSET q_end = min((split + 1) * (long)q_per_split, (long)g.batch * pixels);
    real4 acc[4] = {(real4)0, (real4)0, (real4)0, (real4)0};
    const int c = c0 + id % TILE, o = o0 + id % TILE;
    x += min(c, c_end - 1) * (OFFSET)xs.c;
    gy += (group * outputs + min(o, outputs - 1)) * (OFFSET)gs.c;
    for (OFFSET q0 = split * (OFFSET)q_per_split; q0 < q_end; q0 += STEP) {
        if (id < 4 * STEP) {
            const int2 place = place_of(min(q0 + id / 4, q_end - 1), pixels);
            write_corner(g, xs, from, c0, tap, place, id % 4, &corners[id / 4][id % 4],
                         &corner_weights[id / 4][id % 4]);
            if (id % 4 == 0)
                grad_at[id / 4] = pixel_offset(place, g, gs);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        EACH(i) {
            const int k = id / TILE + 4 * i;
            const corners_of corner = read_corners(corners[k], corner_weights[k]);
            const real column = read_column(x, 0, &corner), v = load(X, gy, grad_at[k]);
            AT(b, k, id % TILE) = q0 + k < q_end && c < c_end ? column : (real)0;
            AT(a, k, id % TILE) = q0 + k < q_end && o < outputs ? v : (real)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_step(acc, a, b, lx, ly);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    EACH(i)
        EACH(j) {
            const int o = o0 + 4 * lx + i, c = c0 + 4 * ly + j;
            if (o < outputs && c < c_end)
                partial[(((long)split * taps + tap) * g.channels + c) * outputs + o] = RESULT(i, j);
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
    const int id = get_local_id(0), o = get_group_id(0), width = g.out_width, pixels = g.out_height * width;
    // From pixel to pixel, 64 further: some lines down and some columns on, which may reach over the line's end.
    const int ahead = 64 % width;
    const long first = o * gs.c + (id / width) * gs.h + (id % width) * gs.w, step = (64 / width) * gs.h + ahead * gs.w;
    const long over = gs.h - width * gs.w;
    real sum = 0;
    for (int n = 0; n < g.batch; ++n) {
        real image = 0;
        long at = first + n * gs.n;
        for (int p = id, x = id % width; p < pixels; p += 64) {
            image += load(X, gy, at);
            x += ahead;
            at += x >= width ? step + over : step;
            x -= x >= width ? width : 0;
        }
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
