// Convolution with few channels per group (depthwise above all) on a GPU, forward and data gradient: nothing to
// stage. Every work-item adds up four neighbouring pixels of LINES rows, of ROWS channels of a group, which share what
// they read of the source, or of four channels that are groups of their own. Neighbouring work-items take neighbouring
// pixels of planar tensors, neighbouring channels of channels_last ones. Options: those of gpu_direct_common.cl,
// -DACTIVATION, and
//   -DROWS=n          channels of the result that a work-item computes, of one group
//   -DWEIGHT_QUADS=0|1  QUADS: weights of four channels are TAPS * TAPS_Y quads, which begin at a multiple of four
//   -DUNIFORM=0|1     planar: a work-group has channels in common, which lets it load weights once
#include "kernels/conv/gpu_direct_common.cl"
#include "kernels/conv/gpu_direct_finish.cl"

// Weights lie at constant distances from one address, or have addresses of their own: where rows are skipped compilers
// would load all weights ahead of all rows, and that of Xe-HPC takes more instructions for few of them.
#if SKIP || (defined(SUB_GROUP) && FLIP && TAPS * TAPS_Y == 4)
#define ALONE 1
#else
#define ALONE 0
#endif

// w: [group, row][channel][tap].
__kernel DIRECT_GROUP
void conv_direct(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                 const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                 gpu_direct_problem all)
{
    const gpu_conv_problem* p = &all.conv;
#if UNIFORM
    int outer = get_group_id(0);
    int rest = take(&all, &outer, COUNT_INNER) * ITEMS + get_local_id(0);
    if (rest >= all.items)
        return;
    const int block = take(&all, &outer, COUNT_C), n = outer;
    const int x = take(&all, &rest, COUNT_X) * PIXELS, lines = take(&all, &rest, COUNT_Y), z = rest;
#else
    int rest = get_global_id(0);
    if (rest >= all.items)
        return;
#if CHANNELS_LAST
    const int block = take(&all, &rest, COUNT_C);
#endif
    const int x = take(&all, &rest, COUNT_X) * PIXELS, lines = take(&all, &rest, COUNT_Y);
    const int z = take(&all, &rest, COUNT_Z);
#if !CHANNELS_LAST
    const int block = take(&all, &rest, COUNT_C);
#endif
    const int n = rest;
#endif
    const int y = BLOCK_ROW(lines);
    const int group = QUADS ? block * CHANNELS : quotient(&all, block, COUNT_ROWS), rows = p->rows;
    const int row0 = QUADS ? 0 : (block - group * all.counts[COUNT_ROWS]) * ROWS, depth = QUADS ? 1 : p->depth;
    const int taps_x = MORE ? p->taps[2] : TAPS, taps_y = TAPS_Y > 0 ? TAPS_Y : p->taps[1], plane = taps_x * taps_y;
    const OFFSET channel_taps = (OFFSET)(plane * p->taps[0]) * SIZE, row_taps = p->depth * channel_taps;
    const OFFSET from = (OFFSET)(source_offset + n * p->source_image + group * p->source_group) * SIZE;
    const OFFSET w_at = (OFFSET)w_offset * SIZE + (group * rows + row0) * row_taps;
    const OFFSET channel_step = p->source_channel * SIZE, line_step = p->source_axis[1] * SIZE;
    OFFSET row_weights[ROWS];   // of weights; channels beyond repeat the last one
    UNROLL for (int k = 0; k < ROWS; ++k) row_weights[k] = min(k, rows - 1 - row0) * row_taps;

    lanes sums[LINES][ROWS][PIXELS];
    UNROLL for (int j = 0; j < LINES; ++j)
        UNROLL for (int k = 0; k < ROWS; ++k)
            UNROLL for (int i = 0; i < PIXELS; ++i) sums[j][k][i] = (lanes)0;
#if MORE
    for (int tx = 0; tx < taps_x; tx += TAPS)
#else
    const int tx = 0;
#endif
    {
        const row_places row = find_row_places(p, x, tx);
        for (int tz = 0; tz < p->taps[0]; ++tz) {
            const int iz = z * p->scale[0] + p->shift[0] + tz * p->step[0];
            if ((uint)iz >= (uint)p->in[0])
                continue;
            for (int ty = 0; ty < (TAPS_Y > 0 ? 1 : taps_y); ++ty) {
                const int iy = FIRST_LINE(p, y) + ty * p->step[1];
                if (TAPS_Y == 0 && (uint)iy >= (uint)p->in[1])
                    continue;
                OFFSET line = from + iz * (p->source_axis[0] * SIZE) + iy * line_step;
                OFFSET taps = w_at + (OFFSET)(tz * plane + ty * taps_x) * SIZE;
#pragma unroll 1
                for (int c = 0; c < depth; ++c, line += channel_step, taps += channel_taps) {
#if WEIGHT_QUADS
                    real weights[4 * TAPS * TAPS_Y];   // [channel][tap]
                    UNROLL for (int i = 0; i < TAPS * TAPS_Y; ++i) {
                        const real4 four = WIDEN(LOAD_BITS(AT(w, taps + i * 4 * SIZE)));
                        weights[4 * i] = four.x, weights[4 * i + 1] = four.y;
                        weights[4 * i + 2] = four.z, weights[4 * i + 3] = four.w;
                    }
#endif
                    UNROLL for (int r = 0; r < READ; ++r) {
                        const int there = TAPS_Y == 0 || (uint)(iy + r) < (uint)p->in[1];
                        if (SKIP && !there)
                            continue;
                        const OFFSET at = SKIP || there ? line + r * line_step : from;
                        lanes values[VALUES];
                        read_row(values, source, at, &row, there);
                        UNROLL for (int j = 0; j < LINES; ++j) {
                            const int tap_y = TAP_ROW(r, j);
                            if (tap_y < 0 || tap_y >= max(TAPS_Y, 1))
                                continue;
                            UNROLL for (int k = 0; k < ROWS; ++k)
                                UNROLL for (int t = 0; t < TAPS; ++t) {
                                    if (MORE && tx + t >= taps_x)
                                        continue;
                                    const int tap = TAP_Y(tap_y) * taps_x + TAP_X(p, tx + t), at = ALONE ? 0 : tap;
                                    const __global stored* own =
                                        AT(w, taps + row_weights[k] + (ALONE ? (OFFSET)tap * SIZE : 0));
#if WEIGHT_QUADS
                                    const real* four = weights + (TAP_Y(tap_y) * TAPS + TAP_X(p, t));
                                    const lanes weight = (lanes)(four[0], four[TAPS * TAPS_Y], four[2 * TAPS * TAPS_Y],
                                                                 four[3 * TAPS * TAPS_Y]);
#elif QUADS
                                    const lanes weight =
                                        (lanes)(load(T, own, at), load(T, AT(own, row_taps), at),
                                                load(T, AT(own, 2 * row_taps), at), load(T, AT(own, 3 * row_taps), at));
#else
                                    const lanes weight = load(T, own, at);
#endif
                                    UNROLL for (int i = 0; i < PIXELS; ++i)
                                        sums[j][k][i] = fma(values[VALUE(i, t)], weight, sums[j][k][i]);
                                }
                        }
                    }
                }
            }
        }
    }

    const int channel = group * rows + row0;
    bias += p->has_bias ? bias_offset + channel : 0;
    result += result_offset + n * p->result_image + channel * (long)p->result_channel + z * p->result_axis[0] +
              y * p->result_axis[1] + x * p->result_axis[2];
    UNROLL for (int k = 0; k < ROWS; ++k) {
        if (k >= rows - row0)
            continue;
#if QUADS
        real4 added = (real4)0;
        if (p->has_bias)
            added = (real4)(load(T, bias, 0), load(T, bias, 1), load(T, bias, 2), load(T, bias, 3));
#else
        const real added = p->has_bias ? load(T, bias, k) : (real)0;
#endif
        UNROLL for (int j = 0; j < LINES; ++j) {
            if (y + j * APART >= p->out[1])
                continue;
            __global stored* line = result + (k * p->result_channel + j * APART * p->result_axis[1]);
#if RESULT_QUADS
            real values[4];
            UNROLL for (int i = 0; i < PIXELS; ++i) values[i] = finish(sums[j][k][i], added, line + i, p);
            store_quad(T, line, ((real4)(values[0], values[1], values[2], values[3])));
#else
            UNROLL for (int i = 0; i < PIXELS; ++i)
                if (x + i < p->out[2]) {   // leaving the loop instead would keep some compilers from unrolling it
                    __global stored* to = line + i * p->result_axis[2];
#if QUADS
                    const real4 v = sums[j][k][i];
                    const real4 done = (real4)(finish(v.x, added.x, to, p), finish(v.y, added.y, to + 1, p),
                                               finish(v.z, added.z, to + 2, p), finish(v.w, added.w, to + 3, p));
                    store_quad(T, to, done);
#else
                    store(T, to, 0, finish(sums[j][k][i], added, to, p));
#endif
                }
#endif
        }
    }
}
