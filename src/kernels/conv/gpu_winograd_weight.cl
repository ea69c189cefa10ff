// Weight gradients by Winograd's F(2x2, 3x3) on a GPU: the forward pass of gpu_winograd.cl, derived by its transformed
// weights. Where M is what the forward pass multiplies for a tile and V its source,
//
//   gradient of M = A dy A^T,   gradient of U[i] = the sum over tiles of V[i] times that,   dw = G^T (gradient of U) G
//
// The gradient of U lies as U does, that of M as M does. Whatever is not finite is summed again by the definition.
// Options: those of gpu_winograd.cl.
#include "kernels/conv/gpu_winograd.cl"

__kernel void conv_winograd_gradient(const __global stored* restrict dy, ulong dy_offset, __global real* restrict M,
                                     ulong M_offset, gpu_conv_problem p, winograd_problem w)
{
    const int row = get_global_id(CHANNELS_LAST ? 0 : 1), tile = get_global_id(CHANNELS_LAST ? 1 : 0);
    if (row >= w.rows || tile >= w.count)
        return;
    const int outside = row >= p.rows || w.first + tile >= w.all;
    const tile_place at = place_of(&w, min(w.first + tile, w.all - 1));
    dy += dy_offset + at.n * p.result_image + min(row, p.rows - 1) * (long)p.result_channel +
          at.y * p.result_axis[1] + at.x * p.result_axis[2];
    const int below = at.y + 1 < p.out[1], right = at.x + 1 < p.out[2];
    const int down = below ? p.result_axis[1] : 0, on = right ? p.result_axis[2] : 0;
    const mask all = MASK(!outside), lower = MASK(below), second = MASK(right);
    const real d0 = masked(load(T, dy, 0), all), d1 = masked(load(T, dy, on), all & second);
    const real d2 = masked(load(T, dy, down), all & lower);
    const real d3 = masked(load(T, dy, down + on), all & lower & second);
    const real columns[8] = {d0, d0 + d1, d0 - d1, -d1, d2, d2 + d3, d2 - d3, -d3};
    M += M_offset + (CHANNELS_LAST ? tile * w.rows + row : row * w.count + tile);
    const int step = w.rows * w.count;
UNROLL
    for (int x = 0; x < 4; ++x) {
        M[x * step] = columns[x];
        M[(4 + x) * step] = columns[x] + columns[4 + x];
        M[(8 + x) * step] = columns[x] - columns[4 + x];
        M[(12 + x) * step] = -columns[4 + x];
    }
}

// One weight's gradient by the definition, with zeros around the source; both point to their channel of the first
// image. NaN stays NaN.
static real sum_weight_again(const __global stored* source, const __global stored* dy, int tap_y, int tap_x,
                             const gpu_conv_problem* p)
{
    const int wide = p->out[2], high = p->out[1];
    real sum = 0;
#pragma unroll 1
    for (int pixel = 0; pixel < p->pixels && !isnan(sum); ++pixel) {
        const int line = pixel / wide, out_x = pixel - line * wide, n = line / high, out_y = line - n * high;
        const int y = out_y + p->shift[1] + tap_y * p->step[1], x = out_x + p->shift[2] + tap_x * p->step[2];
        const int inside = (uint)y < (uint)p->in[1] && (uint)x < (uint)p->in[2];
        const long from = n * p->source_image + (inside ? y * p->source_axis[1] + x * p->source_axis[2] : 0);
        const long by = n * p->result_image + out_y * p->result_axis[1] + out_x * p->result_axis[2];
        sum += masked(load(T, source, from), MASK(inside)) * load(T, dy, by);
    }
    return sum;
}

// dw of 16x16 pairs of channels, which change places in local memory as those of conv_winograd_weights do.
__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void conv_winograd_weight(const __global real* restrict U, ulong U_offset, __global stored* weights,
                          ulong weights_offset, const __global stored* source, ulong source_offset,
                          const __global stored* dy, ulong dy_offset, gpu_conv_problem p, winograd_problem w)
{
    __local real turned[POINTS][SIDE][SIDE + 1];
    const int x = get_local_id(0), y = get_local_id(1);
    const int row0 = get_group_id(0) * SIDE, channel0 = get_group_id(1) * SIDE;
    U += U_offset + min(channel0 + y, w.depth - 1) * w.rows + min(row0 + x, w.rows - 1);
UNROLL
    for (int i = 0; i < POINTS; ++i)
        turned[i][y][x] = U[i * w.depth * w.rows];
    barrier(CLK_LOCAL_MEM_FENCE);
    const int along_rows = w.weights_row < w.weights_channel;
    const int own_row = along_rows ? x : y, own_channel = along_rows ? y : x;
    const int row = row0 + own_row, channel = channel0 + own_channel;
    if (row >= p.rows || channel >= p.depth)
        return;
    real t[12];
UNROLL
    for (int i = 0; i < 4; ++i) {   // along y
        const real u0 = turned[i][own_channel][own_row], u1 = turned[4 + i][own_channel][own_row];
        const real u2 = turned[8 + i][own_channel][own_row], u3 = turned[12 + i][own_channel][own_row];
        t[i] = u0 + (u1 + u2) / 2;
        t[4 + i] = (u1 - u2) / 2;
        t[8 + i] = (u1 + u2) / 2 + u3;
    }
    weights += weights_offset + row * w.weights_row + channel * w.weights_channel;
    source += source_offset + channel * (long)p.source_channel;
    dy += dy_offset + row * (long)p.result_channel;
UNROLL
    for (int i = 0; i < 3; ++i) {
        const real half_sum = (t[4 * i + 1] + t[4 * i + 2]) / 2;
        real g[3] = {t[4 * i] + half_sum, (t[4 * i + 1] - t[4 * i + 2]) / 2, half_sum + t[4 * i + 3]};
UNROLL
        for (int j = 0; j < 3; ++j) {
            if (!isfinite(g[j]))
                g[j] = sum_weight_again(source, dy, i, j, &p);
            store(T, weights + i * w.weights_tap[0] + j * w.weights_tap[1], 0, g[j]);
        }
    }
}
