// Convolution on a GPU, forward and data gradient: an implicit matrix product over the register tile of
// gemm/gpu_micro_kernel.cl.
//
//   result[channel][pixel] = sum over k of weights[channel][k] * source[k][pixel]
//
// A work-group owns TILE x TILE sums. Slabs of both factors pass through local memory; the source is gathered at
// position*scale + shift + tap*step, and where k lies is read from a table, one entry for each (channel, tap) or
// (tap, channel): no division in the loop. Neighbouring work-items read neighbouring addresses: pixels in planar
// tensors, four channels at a time in channels_last ones, whose tiles have pixels as rows so that they are written so.
//
// As in gemm/gpu_tiled.cl nothing is tested for edges inside the loop: lines beyond repeat the last one, and what is
// left over of k comes first. Options: those of the micro kernel and of gpu_gather.cl, -DACTIVATION, and
//   -DCHANNELS_LAST=0|1  -DQUADS_OF_CHANNELS=0|1   the latter: they lie at multiples of four elements, as many
//   -DWEIGHTS_ALIGNED=0|1                          rows of weights begin and end at multiples of four elements
//   -DENDS_WAIT=0|1    what rows are written with waits in local memory: on Intel's GPUs, where sums need the registers
//   -DSLAB_PAIRS=1|2   of slabs in local memory: of two, one is filled while the other is multiplied
#include "kernels/conv/gpu_gather.cl"
#include "kernels/conv/epilogue.cl"
#include "kernels/gemm/gpu_micro_kernel.cl"

DEFINE_ACTIVATE(activate, REAL)

// Four channels from k on, at one tap if QUADS_OF_CHANNELS; `depth` counts what is left from k on.
static inline REAL4 load_channels(const __global stored* source, const gpu_conv_problem* p, source_place place,
                                  const __global int4* table, int k, int depth)
{
#if QUADS_OF_CHANNELS
    int wanted = depth > 0;
    const OFFSET at = tap_element(p, place, find_tap(p, table, k), &wanted);
    const REAL4 v = load_quad(X, source + at);
    return wanted ? v : (REAL4)0;
#else
    REAL values[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        values[e] = load_tap(source, p, place, find_tap(p, table, k + e), e < depth);
    return (REAL4)(values[0], values[1], values[2], values[3]);
#endif
}

// Planar slabs of pixels: a work-item brings one pixel at every GATHER_STEP-th k.
#define GATHER_STEP (ITEMS / TILE)
#define GATHER_K(item, e) ((item) / TILE + (e) * GATHER_STEP)

static inline void place_values(__local REAL4* slab, const REAL4 values[SLAB_LOADS], int item)
{
    __local REAL* to = (__local REAL*)slab + item % TILE;
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
        to[GATHER_K(item, 4 * load) * SLAB_PITCH * 4] = values[load].x;
        to[GATHER_K(item, 4 * load + 1) * SLAB_PITCH * 4] = values[load].y;
        to[GATHER_K(item, 4 * load + 2) * SLAB_PITCH * 4] = values[load].z;
        to[GATHER_K(item, 4 * load + 3) * SLAB_PITCH * 4] = values[load].w;
    }
}

#if CHANNELS_LAST
#define SOURCE_PLACES SLAB_LOADS
#else
#define SOURCE_PLACES 1
#endif

// A slab of the source from k on, of which the first `depth` count.
static inline void gather_slab(REAL4 values[SLAB_LOADS], const __global stored* source, const gpu_conv_problem* p,
                               const source_place places[SOURCE_PLACES], const __global int4* table, int2 k_and_depth)
{
    const int item = get_local_id(0), k = k_and_depth.x, depth = k_and_depth.y;
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
#if CHANNELS_LAST
        const int in_slab = slab_depth(item, load, 1);
        values[load] = load_channels(source, p, places[load], table, k + in_slab, depth - in_slab);
#else
        REAL four[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int in_slab = GATHER_K(item, 4 * load + e);
            four[e] = load_tap(source, p, places[0], find_tap(p, table, k + in_slab), in_slab < depth);
        }
        values[load] = (REAL4)(four[0], four[1], four[2], four[3]);
#endif
    }
}

// With what is added to a sum beyond its bias.
static inline REAL finish(REAL v, const __global stored* old, const gpu_conv_problem* p)
{
    const epilogue e = {p->has_bias, ACTIVATION, p->accumulate, p->alpha, p->beta};
    if (p->accumulate)
        v += load(X, old, 0);
    return activate(v, &e);
}

__kernel TILE_GROUP
void conv_tiled(const __global stored* restrict source, ulong source_offset, const __global stored* restrict weights,
                ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                ulong result_offset, const __global int4* restrict table, ulong table_offset, gpu_conv_problem p)
{
    const int item = get_local_id(0), x = item_column(item), y = item_row(item);
    const int row_blocks = (p.rows + TILE - 1) / TILE, pixel0 = get_group_id(0) * TILE;
    const int row0 = get_group_id(1) % row_blocks * TILE, group = get_group_id(1) / row_blocks;
    source += source_offset + group * p.source_group;
    weights += weights_offset + ((long)group * p.rows + row0) * p.total;
    table += table_offset / 4;
    const slab_source from_weights = {p.total, 1, min(p.rows - row0, TILE) - 1, 1, WEIGHTS_ALIGNED};
    source_place places[SOURCE_PLACES];
#pragma unroll
    for (int i = 0; i < SOURCE_PLACES; ++i) {
        const int line = CHANNELS_LAST ? slab_line(item, i, 1) : item % TILE;
        places[i] = find_source(&p, find_position(&p, min(pixel0 + line, p.pixels - 1)));
    }

    __local REAL4 slabs[SLAB_PAIRS * 2 * SLAB_QUADS];
#if ENDS_WAIT
    __local OFFSET pixel_places[TILE];
    __local REAL4 biases[TILE / 4];
    if (item < TILE) {
        const int channel = min(item, p.rows - row0 - 1);
        pixel_places[item] = result_place(&p, find_position(&p, min(pixel0 + item, p.pixels - 1)));
        ((__local REAL*)biases)[item] = p.has_bias ? load(X, bias, bias_offset + group * p.rows + row0 + channel) : 0;
    }
#endif
    REAL4 next_weights[SLAB_LOADS], next_source[SLAB_LOADS], sums[WIDTH][QUADS];
    clear_sums(sums);
    const int over = p.total % SLAB_K, first = over ? over : min(p.total, SLAB_K);
    fetch_slab(next_weights, weights, from_weights, first, item);
    gather_slab(next_source, source, &p, places, table, (int2)(0, first));
    for (int k = first, pair = 0; ; k += SLAB_K) {
        __local REAL4 *weight_slab = slabs + pair * 2 * SLAB_QUADS, *source_slab = weight_slab + SLAB_QUADS;
        place_slab(weight_slab, next_weights, item, 1);
#if CHANNELS_LAST
        place_slab(source_slab, next_source, item, 1);
#else
        place_values(source_slab, next_source, item);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k < p.total) {
            fetch_slab(next_weights, weights + k, from_weights, SLAB_K, item);
            gather_slab(next_source, source, &p, places, table, (int2)(k, SLAB_K));
        }
        if (CHANNELS_LAST)
            multiply_slabs(sums, source_slab, weight_slab, x, y);
        else
            multiply_slabs(sums, weight_slab, source_slab, x, y);
#if SLAB_PAIRS == 2
        pair = 1 - pair;
#else
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        if (k >= p.total)
            break;
    }

    result += result_offset + group * p.result_group + (OFFSET)row0 * p.result_channel;
    const int rows = p.rows - row0, pixels = p.pixels - pixel0;
#if !ENDS_WAIT
    bias += bias_offset + group * p.rows + row0;
#endif
#if CHANNELS_LAST
#if !ENDS_WAIT
    if (p.has_bias)   // all at once: kept until the last row is written, biases would take registers that sums need
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            REAL added[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                added[e] = load(X, bias, min(COLUMN_OF(quad, x) + e, rows - 1));
#pragma unroll
            for (int i = 0; i < WIDTH; ++i)
                sums[i][quad] += (REAL4)(added[0], added[1], added[2], added[3]);
        }
#endif
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        if (ROW_OF(i, y) >= pixels)
            continue;
#if ENDS_WAIT
        const OFFSET place = pixel_places[ROW_OF(i, y)];
#else
        const OFFSET place = result_place(&p, find_position(&p, pixel0 + ROW_OF(i, y)));
#endif
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const int channel = COLUMN_OF(quad, x);
#if ENDS_WAIT
            sums[i][quad] += ((volatile __local REAL4*)biases)[channel / 4];
#endif
            const REAL values[4] = {sums[i][quad].x, sums[i][quad].y, sums[i][quad].z, sums[i][quad].w};
            __global stored* to = result + (place + channel * (OFFSET)p.result_channel);
#if QUADS_OF_CHANNELS
            if (channel >= rows)
                continue;
            REAL finished[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                finished[e] = finish(values[e], to + e, &p);
            store_quad(X, to, (REAL4)(finished[0], finished[1], finished[2], finished[3]));
#else
#pragma unroll
            for (int e = 0; e < 4; ++e, to += p.result_channel)
                if (channel + e < rows)
                    store(X, to, 0, finish(values[e], to, &p));
#endif
        }
    }
#else
#if !ENDS_WAIT
    OFFSET pixel_places[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        const int pixel = COLUMN_OF(j / 4, x) + j % 4;
        pixel_places[j] = result_place(&p, find_position(&p, pixel0 + min(pixel, pixels - 1)));
    }
#endif
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        const int channel = ROW_OF(i, y);
        if (channel >= rows)
            continue;
#if ENDS_WAIT
        const REAL added = ((__local REAL*)biases)[channel];
#else
        const REAL added = p.has_bias ? load(X, bias, channel) : 0;
#endif
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const REAL values[4] = {sums[i][quad].x, sums[i][quad].y, sums[i][quad].z, sums[i][quad].w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (COLUMN_OF(quad, x) + e < pixels) {
#if ENDS_WAIT
                    const OFFSET place = ((volatile __local OFFSET*)pixel_places)[COLUMN_OF(quad, x) + e];
#else
                    const OFFSET place = pixel_places[4 * quad + e];
#endif
                    __global stored* to = result + (place + channel * (OFFSET)p.result_channel);
                    store(X, to, 0, finish(values[e] + added, to, &p));
                }
        }
    }
#endif
}
