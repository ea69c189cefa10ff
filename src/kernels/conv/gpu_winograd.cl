// Convolution by Winograd's F(2x2, 3x3) on a GPU, forward and data gradient: 3x3 taps at steps of one in one group.
// Four outputs of a channel take sixteen products in place of 36. Around a batch of sixteen matrix products, which gemm
// computes, stand
//
//   U = G w G^T        of each pair of channels        [16][depth][rows]
//   V = B^T d B        of 4x4 positions of the source  planar: [16][depth][tile], CHANNELS_LAST: [16][tile][depth]
//   M[i] = U[i] V[i]                                   planar: [16][rows][tile],  CHANNELS_LAST: [16][tile][rows]
//   result = A^T M A
//
// The constants are 0, 1 and 1/2, so that rounding stays that of ordinary sums. An infinity, or what sums of
// neighbours overflow to, makes NaN of outputs that should be infinite or none of the two: whatever is not finite is
// summed again by the definition.
//
// A work-item has one channel of one tile; neighbours are tiles of planar tensors, channels of channels_last ones.
// Options: -DT=<dtype>, -DACTIVATION, -DCHANNELS_LAST=0|1, -DPAIRS=0|1: rows of a result of float32 begin at even
// elements and have as many
#include "core/dtype.cl"
#include "kernels/conv/gpu_problem.cl"
#include "kernels/conv/gpu_winograd_problem.cl"

typedef compute_t(T) real;
typedef storage_t(T) stored;

#include "kernels/conv/gpu_direct_finish.cl"
#include "kernels/conv/mask.cl"

#define POINTS 16
#define UNROLL _Pragma("unroll")

typedef struct {
    int n, y, x;
} tile_place;

static inline tile_place place_of(const winograd_problem* w, int tile)
{
    tile_place at;
    const int row = (mul_hi((uint)tile, w->magic[1]) + (uint)tile) >> w->magic_shift[1];
    at.x = (tile - row * w->tiles[1]) * 2;
    at.n = (mul_hi((uint)row, w->magic[0]) + (uint)row) >> w->magic_shift[0];
    at.y = (row - at.n * w->tiles[0]) * 2;
    return at;
}

// U of 16x16 pairs of channels. What is read side by side need not be written so: they change places in local memory.
#define SIDE 16

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void conv_winograd_weights(const __global stored* restrict weights, ulong weights_offset, __global real* restrict U,
                           ulong U_offset, gpu_conv_problem p, winograd_problem w)
{
    __local real turned[POINTS][SIDE][SIDE + 1];
    const int x = get_local_id(0), y = get_local_id(1);
    const int row0 = get_group_id(0) * SIDE, channel0 = get_group_id(1) * SIDE;
    const int along_rows = w.weights_row < w.weights_channel;
    const int own_row = along_rows ? x : y, own_channel = along_rows ? y : x;
    const int inside = row0 + own_row < p.rows && channel0 + own_channel < p.depth;
    weights += weights_offset + min(row0 + own_row, p.rows - 1) * w.weights_row +
               min(channel0 + own_channel, p.depth - 1) * w.weights_channel;
    real g[9], t[12];
UNROLL
    for (int i = 0; i < 9; ++i) {   // in the order in which they meet the source
        const int tap_y = p.step[1] > 0 ? i / 3 : 2 - i / 3, tap_x = p.step[2] > 0 ? i % 3 : 2 - i % 3;
        const real v = load(T, weights, tap_y * w.weights_tap[0] + tap_x * w.weights_tap[1]);
        g[i] = inside ? v : 0;
    }
UNROLL
    for (int i = 0; i < 3; ++i) {
        t[i] = g[i];
        t[3 + i] = (g[i] + g[3 + i] + g[6 + i]) / 2;
        t[6 + i] = (g[i] - g[3 + i] + g[6 + i]) / 2;
        t[9 + i] = g[6 + i];
    }
UNROLL
    for (int i = 0; i < 4; ++i) {
        turned[4 * i][own_channel][own_row] = t[3 * i];
        turned[4 * i + 1][own_channel][own_row] = (t[3 * i] + t[3 * i + 1] + t[3 * i + 2]) / 2;
        turned[4 * i + 2][own_channel][own_row] = (t[3 * i] - t[3 * i + 1] + t[3 * i + 2]) / 2;
        turned[4 * i + 3][own_channel][own_row] = t[3 * i + 2];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row0 + x >= w.rows || channel0 + y >= w.depth)
        return;
    U += U_offset + (channel0 + y) * w.rows + row0 + x;
UNROLL
    for (int i = 0; i < POINTS; ++i)
        U[i * w.depth * w.rows] = turned[i][y][x];
}

__kernel void conv_winograd_source(const __global stored* restrict source, ulong source_offset,
                                   __global real* restrict V, ulong V_offset, gpu_conv_problem p, winograd_problem w)
{
    const int channel = get_global_id(CHANNELS_LAST ? 0 : 1), tile = get_global_id(CHANNELS_LAST ? 1 : 0);
    if (channel >= w.depth || tile >= w.count)
        return;
    const int outside = channel >= p.depth || w.first + tile >= w.all;
    const tile_place at = place_of(&w, min(w.first + tile, w.all - 1));
    source += source_offset + at.n * p.source_image + min(channel, p.depth - 1) * (long)p.source_channel;
    int rows[4], columns[4];
    mask in_rows[4], in_columns[4];
UNROLL
    for (int i = 0; i < 4; ++i) {
        const int y = at.y + p.shift[1] + min(2 * p.step[1], 0) + i, x = at.x + p.shift[2] + min(2 * p.step[2], 0) + i;
        const int row_inside = (uint)y < (uint)p.in[1] && !outside, column_inside = (uint)x < (uint)p.in[2];
        rows[i] = row_inside ? y * p.source_axis[1] : 0;
        columns[i] = column_inside ? x * p.source_axis[2] : 0;
        in_rows[i] = MASK(row_inside);
        in_columns[i] = MASK(column_inside);
    }
    real d[POINTS];
UNROLL
    for (int i = 0; i < POINTS; ++i)
        d[i] = load(T, source, rows[i / 4] + columns[i % 4]);
UNROLL
    for (int i = 0; i < POINTS; ++i)
        d[i] = masked(d[i], in_rows[i / 4] & in_columns[i % 4]);
UNROLL
    for (int x = 0; x < 4; ++x) {
        const real d0 = d[x], d1 = d[4 + x], d2 = d[8 + x], d3 = d[12 + x];
        d[x] = d0 - d2;
        d[4 + x] = d1 + d2;
        d[8 + x] = d2 - d1;
        d[12 + x] = d1 - d3;
    }
    V += V_offset + (CHANNELS_LAST ? tile * w.depth + channel : channel * w.count + tile);
    const int step = w.depth * w.count;
UNROLL
    for (int y = 0; y < POINTS; y += 4) {
        V[y * step] = d[y] - d[y + 2];
        V[(y + 1) * step] = d[y + 1] + d[y + 2];
        V[(y + 2) * step] = d[y + 2] - d[y + 1];
        V[(y + 3) * step] = d[y + 1] - d[y + 3];
    }
}

// One output by the definition, with zeros around the source; both point to the first channel, the source to an image.
// NaN stays NaN.
static real sum_again(const __global stored* source, const __global stored* weights, int out_y, int out_x,
                      const gpu_conv_problem* p, const winograd_problem* w)
{
    real sum = 0;
#pragma unroll 1
    for (int tap = 0; tap < 9; ++tap) {
        const int tap_y = tap / 3, tap_x = tap - 3 * tap_y;
        const int y = out_y + p->shift[1] + tap_y * p->step[1], x = out_x + p->shift[2] + tap_x * p->step[2];
        const int inside = (uint)y < (uint)p->in[1] && (uint)x < (uint)p->in[2];
        const __global stored* from = source + (inside ? y * p->source_axis[1] + x * p->source_axis[2] : 0);
        const __global stored* by = weights + (tap_y * w->weights_tap[0] + tap_x * w->weights_tap[1]);
#pragma unroll 1
        for (int c = 0; c < p->depth && !isnan(sum); ++c, from += p->source_channel, by += w->weights_channel)
            sum += masked(load(T, from, 0), MASK(inside)) * load(T, by, 0);
    }
    return sum;
}

__kernel void conv_winograd_result(const __global real* restrict M, ulong M_offset, const __global stored* bias,
                                   ulong bias_offset, __global stored* result, ulong result_offset,
                                   const __global stored* source, ulong source_offset, const __global stored* weights,
                                   ulong weights_offset, gpu_conv_problem p, winograd_problem w)
{
    const int row = get_global_id(CHANNELS_LAST ? 0 : 1), tile = get_global_id(CHANNELS_LAST ? 1 : 0);
    if (row >= p.rows || tile >= w.count || w.first + tile >= w.all)
        return;
    const tile_place at = place_of(&w, w.first + tile);
    M += M_offset + (CHANNELS_LAST ? tile * w.rows + row : row * w.count + tile);
    const int step = w.rows * w.count;
    real m[POINTS], t[8], sums[4];
UNROLL
    for (int i = 0; i < POINTS; ++i)
        m[i] = M[i * step];
UNROLL
    for (int x = 0; x < 4; ++x) {
        t[x] = m[x] + m[4 + x] + m[8 + x];
        t[4 + x] = m[4 + x] - m[8 + x] - m[12 + x];
    }
UNROLL
    for (int y = 0; y < 2; ++y) {
        sums[2 * y] = t[4 * y] + t[4 * y + 1] + t[4 * y + 2];
        sums[2 * y + 1] = t[4 * y + 1] - t[4 * y + 2] - t[4 * y + 3];
    }
    const int wide = min(p.out[2] - at.x, 2), high = min(p.out[1] - at.y, 2);
    if (!(isfinite(sums[0]) && isfinite(sums[1]) && isfinite(sums[2]) && isfinite(sums[3]))) {
        source += source_offset + at.n * p.source_image;
        weights += weights_offset + row * w.weights_row;
#pragma unroll 1
        for (int i = 0; i < 2 * high; ++i) {   // a chain of choices: sums stay in registers
            real sum = i == 0 ? sums[0] : i == 1 ? sums[1] : i == 2 ? sums[2] : sums[3];
            if (!isfinite(sum) && i % 2 < wide)
                sum = sum_again(source, weights, at.y + i / 2, at.x + i % 2, &p, &w);
UNROLL
            for (int j = 0; j < 4; ++j)
                sums[j] = i == j ? sum : sums[j];
        }
    }
    const real added = p.has_bias ? load(T, bias + bias_offset, row) : 0;
    result += result_offset + at.n * p.result_image + row * (long)p.result_channel + at.y * p.result_axis[1] +
              at.x * p.result_axis[2];
UNROLL
    for (int y = 0; y < 2; ++y) {
        if (y >= high)
            break;
        __global stored* to = result + y * p.result_axis[1];
#if PAIRS
        const float2 both = (float2)(finish(sums[2 * y], added, to, &p), finish(sums[2 * y + 1], added, to + 1, &p));
        *(__global float2*)to = both;
#else
        store(T, to, 0, finish(sums[2 * y], added, to, &p));
        if (wide > 1) {
            to += p.result_axis[2];
            store(T, to, 0, finish(sums[2 * y + 1], added, to, &p));
        }
#endif
    }
}
