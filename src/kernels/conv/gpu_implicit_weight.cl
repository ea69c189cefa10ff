// The weight gradient of a convolution on a GPU: an implicit matrix product over the register tile of
// gemm/gpu_micro_kernel.cl.
//
//   dw[output][row] = sum over pixels of dy[output][pixel] * x[row][pixel],   rows are (channel, tap) or (tap, channel)
//
// in parts of the pixels, which add_parts.cl adds in order. See gpu_implicit.cl for the rest; options as there, but for
// those of what comes behind the sums.
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/gpu_micro_kernel.cl"

// The lines of both factors of a weight gradient that a work-item brings: planar tensors in quads of neighbouring
// pixels, channels_last ones in quads of neighbouring channels.
#if !CHANNELS_LAST
#define LINES SLAB_LOADS
#define LINE_OF(item, i) slab_line(item, i, 1)
#elif QUADS_OF_CHANNELS
#define LINES 1
#define LINE_OF(item, i) slab_line(item, 0, 0)
#else
#define LINES 4
#define LINE_OF(item, i) (slab_line(item, 0, 0) + (i))
#endif

typedef struct {
    const __global stored *x, *dy;
    OFFSET outputs[LINES];   // elements from a position of dy
    int4 taps[LINES];
} factor_lines;

// Slabs of both factors for the pixels from `pixel` on, of which the first `depth` count.
static inline void gather_factors(REAL4 dy_values[SLAB_LOADS], REAL4 x_values[SLAB_LOADS], const factor_lines* lines,
                                  const gpu_conv_problem* p, int pixel, int depth)
{
    const int item = get_local_id(0);
#if CHANNELS_LAST
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
        const int k = slab_depth(item, load, 0);
        const int wanted = k < depth;
        const position at = find_position(p, wanted ? pixel + k : pixel);
        const OFFSET result = result_place(p, at);
        const source_place place = find_source(p, at);
#if QUADS_OF_CHANNELS
        int inside = wanted;
        const OFFSET element = tap_element(p, place, lines->taps[0], &inside);
        const REAL4 dy = load_quad(X, lines->dy + (result + lines->outputs[0])), x = load_quad(X, lines->x + element);
        dy_values[load] = wanted ? dy : (REAL4)0;
        x_values[load] = inside ? x : (REAL4)0;
#else
        REAL dy[4], x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            dy[e] = wanted ? load(X, lines->dy + (result + lines->outputs[e]), 0) : 0;
            x[e] = load_tap(lines->x, p, place, lines->taps[e], wanted);
        }
        dy_values[load] = (REAL4)(dy[0], dy[1], dy[2], dy[3]);
        x_values[load] = (REAL4)(x[0], x[1], x[2], x[3]);
#endif
    }
#else
    const int k = slab_depth(item, 0, 1);   // the same for all loads
    REAL dy[SLAB_LOADS][4], x[SLAB_LOADS][4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const int wanted = k + e < depth;
        const position at = find_position(p, wanted ? pixel + k + e : pixel);
        const OFFSET result = result_place(p, at);
        const source_place place = find_source(p, at);
#pragma unroll
        for (int load = 0; load < SLAB_LOADS; ++load) {
            const REAL v = load(X, lines->dy + (result + lines->outputs[load]), 0);
            dy[load][e] = wanted ? v : 0;
            x[load][e] = load_tap(lines->x, p, place, lines->taps[load], wanted);
        }
    }
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
        dy_values[load] = (REAL4)(dy[load][0], dy[load][1], dy[load][2], dy[load][3]);
        x_values[load] = (REAL4)(x[load][0], x[load][1], x[load][2], x[load][3]);
    }
#endif
}

// sums[part][group, output][row] for one part of the pixels; rows are (channel, tap) in the order of the table.
__kernel TILE_GROUP
void conv_tiled_weight(const __global stored* restrict x, ulong x_offset, const __global stored* restrict dy,
                       ulong dy_offset, __global REAL* sums, ulong sums_offset, const __global int4* restrict table,
                       ulong table_offset, gpu_conv_problem p)
{
    const int item = get_local_id(0), column = item_column(item), line = item_row(item);
    const int output_blocks = (p.rows + TILE - 1) / TILE, row0 = get_group_id(0) * TILE;
    const int output0 = get_group_id(1) % output_blocks * TILE, group = get_group_id(1) / output_blocks;
    const int part = get_group_id(2), begin = part * p.part_pixels, end = min(p.part_pixels, p.pixels - begin) + begin;
    factor_lines lines;
    lines.x = x + (x_offset + group * p.source_group);
    lines.dy = dy + (dy_offset + group * p.result_group);
    table += table_offset / 4;
#pragma unroll
    for (int i = 0; i < LINES; ++i) {
        const int of_slab = LINE_OF(item, i);
        lines.outputs[i] = min(output0 + of_slab, QUADS_OF_CHANNELS ? (p.rows - 1) / 4 * 4 : p.rows - 1) *
                           (OFFSET)p.result_channel;
        lines.taps[i] = find_tap(&p, table,
                                 min(row0 + of_slab, QUADS_OF_CHANNELS ? (p.total - 1) / 4 * 4 : p.total - 1));
    }

#if SLAB_PAIRS == 2
    __local REAL4 dy_slabs[2][SLAB_QUADS], x_slabs[2][SLAB_QUADS];
    int pair = 0;
#define DY_SLAB dy_slabs[pair]
#define X_SLAB x_slabs[pair]
#else
    __local REAL4 DY_SLAB[SLAB_QUADS], X_SLAB[SLAB_QUADS];
#endif
    REAL4 next_dy[SLAB_LOADS], next_x[SLAB_LOADS], sums_of_item[WIDTH][QUADS];
    clear_sums(sums_of_item);
    const int over = (end - begin) % SLAB_K, first = over ? over : min(end - begin, SLAB_K);
    gather_factors(next_dy, next_x, &lines, &p, begin, first);
    for (int pixel = begin + first; ; pixel += SLAB_K) {
        place_slab(DY_SLAB, next_dy, item, !CHANNELS_LAST);
        place_slab(X_SLAB, next_x, item, !CHANNELS_LAST);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (pixel < end)
            gather_factors(next_dy, next_x, &lines, &p, pixel, SLAB_K);
        multiply_slabs(sums_of_item, DY_SLAB, X_SLAB, column, line);
#if SLAB_PAIRS == 2
        pair = 1 - pair;
#else
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        if (pixel >= end)
            break;
    }

    const int rows = p.total - row0, outputs = p.rows - output0;
    sums += sums_offset + ((long)part * (get_num_groups(1) / output_blocks) + group) * p.rows * (long)p.total +
            (long)output0 * p.total + row0;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        const int output = ROW_OF(i, line);
        if (output >= outputs)
            continue;
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const REAL values[4] = {sums_of_item[i][quad].x, sums_of_item[i][quad].y, sums_of_item[i][quad].z,
                                    sums_of_item[i][quad].w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (COLUMN_OF(quad, column) + e < rows)
                    sums[(long)output * p.total + COLUMN_OF(quad, column) + e] = values[e];
        }
    }
}
