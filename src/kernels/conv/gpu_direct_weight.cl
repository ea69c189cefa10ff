// The weight gradient of gpu_direct.cl's convolutions: sums[part][output][channel][tap], over the part's blocks of
// LINES rows of four pixels in all images. A work-item has all taps of its rows of the kernel (TAPS_Y, or one), which
// share what they read of both tensors. Planar: a work-group adds up one block of outputs. channels_last: a work-item
// does, its neighbours being other outputs. Options: those of gpu_direct_common.cl, -DROWS=n outputs of a group in a
// block.
#include "kernels/conv/gpu_direct_common.cl"

#define TAP_ROWS (TAPS_Y > 0 ? TAPS_Y : 1)

// Where a block's taps read the source, and how many of its pixels and rows there are.
typedef struct {
    OFFSET line, line_step;
    int iy, height, left, below;
} source_block;

// One block: pixels beyond the result's edge count for nothing, whatever the source has there.
static inline __attribute__((always_inline))
void add_block(const lanes factors[ROWS][LINES][PIXELS], const __global stored* x, const source_block* b,
               const row_places* row, int whole, lanes sums[ROWS][TAP_ROWS][TAPS])
{
    UNROLL for (int r = 0; r < READ; ++r) {
        const int there = (uint)(b->iy + r) < (uint)b->height;
        if (SKIP && !there)
            continue;
        const OFFSET at = SKIP || there ? b->line + r * b->line_step : 0;   // a row's places are its image's, too
        lanes values[VALUES];
        read_row(values, x, at, row, there);
        UNROLL for (int j = 0; j < LINES; ++j) {
            const int tap_y = TAP_ROW(r, j);
            if (tap_y < 0 || tap_y >= TAP_ROWS)
                continue;
            UNROLL for (int k = 0; k < ROWS; ++k)
                UNROLL for (int i = 0; i < PIXELS; ++i)
                    UNROLL for (int t = 0; t < TAPS; ++t) {
                        const lanes more = fma(values[VALUE(i, t)], factors[k][j][i], sums[k][tap_y][t]);
                        const int counts = whole || ((RESULT_QUADS || i < b->left) && j < b->below);
                        sums[k][tap_y][t] = counts ? more : sums[k][tap_y][t];
                    }
        }
    }
}

__kernel DIRECT_GROUP
void conv_direct_weight(const __global stored* x, ulong x_offset, const __global stored* dy, ulong dy_offset,
                        __global real* result, ulong result_offset, gpu_direct_problem all)
{
    const gpu_conv_problem* p = &all.conv;
    const int l = get_local_id(0), part = get_group_id(2);
#if CHANNELS_LAST
    const int block = get_global_id(0), first = 0, next = 1;
    if (block >= all.counts[COUNT_C])
        return;
#else
    const int block = get_group_id(0), first = l, next = ITEMS;
#endif
    int rest = get_group_id(1);
#if MORE
    const int chunks = (p->taps[2] + TAPS - 1) / TAPS, tx = rest % chunks * TAPS;
    rest /= chunks;
#else
    const int tx = 0;
#endif
    const int tap_rows = p->taps[1] / TAP_ROWS, ty = rest % tap_rows * TAP_ROWS, tz = rest / tap_rows % p->taps[0];
    const int channel = rest / tap_rows / p->taps[0];
    const int group = QUADS ? block * CHANNELS : quotient(&all, block, COUNT_ROWS), rows = p->rows;
    const int row0 = QUADS ? 0 : (block - group * all.counts[COUNT_ROWS]) * ROWS;
    const OFFSET x_first = (OFFSET)(x_offset + group * p->source_group + channel * p->source_channel) * SIZE;
    const OFFSET dy_first = (OFFSET)(dy_offset + group * p->result_group + row0 * p->result_channel) * SIZE;
    const OFFSET line_step = p->source_axis[1] * SIZE;

    lanes sums[ROWS][TAP_ROWS][TAPS];
    UNROLL for (int k = 0; k < ROWS; ++k)
        UNROLL for (int r = 0; r < TAP_ROWS; ++r)
            UNROLL for (int t = 0; t < TAPS; ++t) sums[k][r][t] = (lanes)0;
    const int begin = (long)all.items * part / all.parts, end = (long)all.items * (part + 1) / all.parts;
    for (int at = begin + first; at < end; at += next) {
        int n = at;
        const int px = take(&all, &n, COUNT_X) * PIXELS, lines = take(&all, &n, COUNT_Y);
        const int py = BLOCK_ROW(lines), pz = take(&all, &n, COUNT_Z);
        const int iz = pz * p->scale[0] + p->shift[0] + tz * p->step[0];
        if ((uint)iz >= (uint)p->in[0])
            continue;
        const int left = p->out[2] - px, below = (p->out[1] - py + APART - 1) / APART;
        const row_places row = find_row_places(p, px, tx);
        const int iy = FIRST_LINE(p, py) + ty * p->step[1];
        const source_block source = {x_first + ((OFFSET)(n * p->source_image) + iz * (OFFSET)p->source_axis[0]) * SIZE +
                                         iy * line_step, line_step, iy, p->in[1], left, below};
        const OFFSET from = dy_first + ((OFFSET)(n * p->result_image) + pz * (OFFSET)p->result_axis[0] +
                                        py * (OFFSET)p->result_axis[1] + px * (OFFSET)p->result_axis[2]) * SIZE;
        lanes factors[ROWS][LINES][PIXELS];
        UNROLL for (int k = 0; k < ROWS; ++k)
            UNROLL for (int j = 0; j < LINES; ++j) {
#if RESULT_QUADS
                const OFFSET line = min(k, rows - 1 - row0) * (OFFSET)p->result_channel +
                                    min(j, below - 1) * APART * (OFFSET)p->result_axis[1];
                const real4 four = WIDEN(LOAD_BITS(AT(dy, from + line * SIZE)));
                factors[k][j][0] = four.x, factors[k][j][1] = four.y;
                factors[k][j][2] = four.z, factors[k][j][3] = four.w;
#else
                UNROLL for (int i = 0; i < PIXELS; ++i)
                    factors[k][j][i] = LOAD_LANES(
                        AT(dy, from + (min(k, rows - 1 - row0) * (OFFSET)p->result_channel +
                                       min(j, below - 1) * APART * (OFFSET)p->result_axis[1] +
                                       min(i, left - 1) * (OFFSET)p->result_axis[2]) * SIZE));
#endif
            }
        if ((RESULT_QUADS || left >= PIXELS) && below >= LINES)
            add_block(factors, x, &source, &row, 1, sums);
        else
            add_block(factors, x, &source, &row, 0, sums);
    }

    // A sum's place: its output, channel and tap.
    const int length = p->depth * p->taps[0] * p->taps[1] * p->taps[2], tap_row = (tz * p->taps[1] + ty) * p->taps[2];
    const int output = QUADS ? group : group * rows + row0;
    result += result_offset + ((long)part * all.outputs + output) * length +
              channel * (p->taps[0] * p->taps[1] * p->taps[2]) + tap_row + tx;
#if CHANNELS_LAST
    UNROLL for (int k = 0; k < ROWS; ++k)
        UNROLL for (int r = 0; r < TAP_ROWS; ++r)
            UNROLL for (int t = 0; t < TAPS; ++t)
                if (k < rows - row0 && (!MORE || tx + t < p->taps[2])) {
                    __global real* to = result + (k * length + r * p->taps[2] + t);
#if QUADS
                    const real4 v = sums[0][r][t];
                    to[0] = v.x, to[length] = v.y, to[2 * length] = v.z, to[3 * length] = v.w;
#else
                    to[0] = sums[k][r][t];
#endif
                }
#else
    // Eight work-items' sums by one, then the eight results.
#define SUMS (ROWS * TAP_ROWS * TAPS)
    __local real kept[SUMS][ITEMS];
    UNROLL for (int k = 0; k < ROWS; ++k)
        UNROLL for (int r = 0; r < TAP_ROWS; ++r)
            UNROLL for (int t = 0; t < TAPS; ++t) kept[(k * TAP_ROWS + r) * TAPS + t][l] = sums[k][r][t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int unit = l; unit < SUMS * 8; unit += ITEMS) {
        __local real* eight = &kept[unit / 8][unit % 8 * 8];
        real sum = eight[0];
        for (int e = 1; e < 8; ++e)
            sum += eight[e];
        eight[0] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = l; s < SUMS; s += ITEMS) {
        real sum = kept[s][0];
        for (int e = 8; e < ITEMS; e += 8)
            sum += kept[s][e];
        const int t = s % TAPS, r = s / TAPS % TAP_ROWS, k = s / TAPS / TAP_ROWS;
        if (k < rows - row0 && (!MORE || tx + t < p->taps[2]))
            result[k * length + r * p->taps[2] + t] = sum;
    }
#endif
}
