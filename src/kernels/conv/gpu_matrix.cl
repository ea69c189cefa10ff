// Convolution of 16-bit floats by matrix instructions, forward and data gradient: an implicit matrix product over the
// tiles of gemm/matrix_tiles.cl.
//
//   result[pixel][channel] = sum over k of source[pixel][k] * weights[channel][k],   or the other way round
//
// The source has its channels innermost, as many as a multiple of eight, so that k, which runs over (tap, channel), is
// the direction of neighbours in both factors whatever the result's layout; eight of them lie at one tap. The result's
// layout says what rows and columns are: pixels are rows where its channels are neighbours.
//
// Options: those of gpu_gather.cl and matrix_tiles.cl (-DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1 -DBLOCKS=0), and
//   -DPIXELS_ARE_ROWS=0|1
//   -DWHOLE_TAPS=0|1        1: depth is a multiple of SLAB_K, so that a slab is of one tap
//   -DPAIRS=0|1             1: and a tap has an even number of slabs
//   -DSTAGES=..             of matrix_stages.cl, or with -DWARPGROUPS=1 of warpgroup_stages.cl, with whole taps
//   -DQUADS=0|1             four neighbours in a row of the result lie at a multiple of four elements
//   -DACTIVATION=..         of epilogue.cl
#if defined(ENGINE_MMA) && !WHOLE_TAPS   // places take the registers
#define SLABS_IN_PAIRS 0
#endif
#if defined(ENGINE_DPAS16) && PLANES && FRAGMENTS_M * FRAGMENTS_N > 12   // and so do those of three axes here
#define B_AFTER_B 1
#endif
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/matrix_tiles.cl"
#if STAGES   // of whole taps; what one of them reads others read again
#define COPIES_THROUGH "ca"
#include "kernels/gemm/copied_slabs.cl"
#endif
#if WARPGROUPS
#include "kernels/gemm/warpgroup_stages.cl"
#elif STAGES
#include "kernels/gemm/matrix_stages.cl"
#endif
#include "kernels/conv/gpu_matrix_gather.cl"
#include "kernels/conv/gpu_matrix_finish.cl"

// Whether what is written behind the sums is written out for all quads of a work-item, short as it is.
#if defined(ENGINE_MMA) && ACTIVATION <= ACTIVATION_RELU && QUADS
#define UNROLLED_END 1
#else
#define UNROLLED_END 0
#endif

#if PIXELS_ARE_ROWS
#define PIXELS BLOCK_M
#define CHANNELS BLOCK_N
#define SOURCE(name) CLPRIM_CAT(a, name)
#define WEIGHTS(name) CLPRIM_CAT(b, name)
#define SOURCE_LOADS A_LOADS
#define WEIGHT_LOADS B_LOADS
#else
#define PIXELS BLOCK_N
#define CHANNELS BLOCK_M
#define SOURCE(name) CLPRIM_CAT(b, name)
#define WEIGHTS(name) CLPRIM_CAT(a, name)
#define SOURCE_LOADS B_LOADS
#define WEIGHT_LOADS A_LOADS
#endif

// Bias of the first `count` of four neighbours in a row: channels of a pixel, or pixels of a channel.
static inline float4 bias_of_quad(const __global stored* bias, const gpu_conv_problem* p, int channel, int count)
{
    if (!p->has_bias)
        return (float4)0;
#if PIXELS_ARE_ROWS
    return (float4)(load(X, bias, channel), load(X, bias, channel + min(1, count - 1)),
                    load(X, bias, channel + min(2, count - 1)), load(X, bias, channel + min(3, count - 1)));
#else
    return (float4)load(X, bias, channel);
#endif
}

static inline void finish_quad(float4 v, __global stored* result, float4 bias, const gpu_conv_problem* p,
                               int2 pixel_and_channel, int count)
{
    const float values[4] = {v.x, v.y, v.z, v.w}, biases[4] = {bias.x, bias.y, bias.z, bias.w};
    const int pixel = pixel_and_channel.x, channel = pixel_and_channel.y;
    result += channel * (OFFSET)p->result_channel;
    __global stored* to = result + result_place(p, find_position(p, pixel));
    float finished[4];
    UNROLL for (int e = 0; e < 4; ++e)
    {
        const int wanted = QUADS ? e : min(e, count - 1);
#if QUADS
        __global stored* at = to + e;
#elif PIXELS_ARE_ROWS
        __global stored* at = to + wanted * (OFFSET)p->result_channel;
#else
        __global stored* at = result + result_place(p, find_position(p, pixel + wanted));
#endif
        finished[e] = finish(values[e], biases[e], at, p);
#if !QUADS
        if (e < count)
            store(X, at, 0, finished[e]);
#endif
    }
#if QUADS
    store_quad(X, to, (float4)(finished[0], finished[1], finished[2], finished[3]));
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_matrix(const __global stored* restrict source, ulong source_offset, const __global stored* restrict weights,
                 ulong weights_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                 ulong result_offset, const __global int2* restrict table, ulong table_offset, gpu_conv_problem p)
{
    BEGIN_MATRIX_TILE
    const int channel_blocks = (p.rows + CHANNELS - 1) / CHANNELS, pixel0 = get_group_id(0) * PIXELS;
    const int channel0 = get_group_id(1) % channel_blocks * CHANNELS, group = get_group_id(1) / channel_blocks;
    const int channels = min(p.rows - channel0, CHANNELS), pixels = min(p.pixels - pixel0, PIXELS);
    const ulong source_origin = source_offset + group * p.source_group;
    const OFFSET weights_origin = 2 * ((OFFSET)weights_offset + ((OFFSET)group * p.rows + channel0) * p.total);
    table += table_offset / 2;

#if STAGES
    BEGIN_STAGES
#else
    BEGIN_SLABS
#endif
    const slab_source from_weights = {2 * p.total, 2, channels - 1, 1, CHANNELS};
#if WARPGROUPS   // slabs take all of local memory, and a work-item has few lines
    byte_place places[SOURCE_LOADS];
    UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)
        places[load] = find_bytes(&p, pixel0 + min(group_line(item, load, 1, PIXELS), pixels - 1), source_origin);
#define PLACE(load) places[load]
#else
    // Each is found once, and through local memory, or compilers find them anew in every step of the loop. NVIDIA's
    // registers are too few to keep them.
#if STAGES
    __local byte_place found[PIXELS];
#define PLACE(load) found[group_line(item, load, 1, PIXELS)]
#elif WHOLE_TAPS && defined(ENGINE_MMA)
    __local byte_place found[PIXELS];
#define PLACE(load) found[SOURCE(_line) + LINES_ON(load, 1, BLOCK_M)]
#else
    __local byte_place* const found = (__local byte_place*)memory;
#define PLACE(load) places[load]
#endif
    for (int line = item; line < PIXELS; line += ITEMS)
        found[line] = find_bytes(&p, pixel0 + min(line, pixels - 1), source_origin);
    barrier(CLK_LOCAL_MEM_FENCE);
#if !(WHOLE_TAPS && defined(ENGINE_MMA))
    byte_place places[SOURCE_LOADS];
    UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)
        places[load] = found[SOURCE(_line) + LINES_ON(load, 1, BLOCK_M)];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#endif
    const __global uint4* const zeros = zeros_of(table, &p);
    OFFSET weights_far = weights_origin;
#if STAGES
    // Where this work-item's groups of a tap lie, found once a tap. What is behind the last one is not wanted.
    tap_place group_at[SOURCE_LOADS];
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], slabs_of_tap = p.depth / SLAB_K;
    int begun = 0, left_of_tap = 0;
    int2 coming = table[0];   // of the tap after this one, on its way
#define COPY(at, count, wanted)                                                                                       \
    {                                                                                                                 \
        if (left_of_tap == 0) {                                                                                       \
            const int2 tap = coming;                                                                                  \
            ++begun;                                                                                                  \
            coming = table[min(begun, taps - 1) * (p.depth / 8)];                                                     \
            UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)                                                    \
                group_at[load] = find_tap_place(source, source_origin, zeros, PLACE(load), tap,                       \
                                                2 * group_depth(item, load, 1, PIXELS));                              \
            left_of_tap = slabs_of_tap;                                                                               \
        }                                                                                                             \
        --left_of_tap;                                                                                                \
        UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)                                                        \
        {                                                                                                             \
            copy_sixteen(slabs + (at) + SOURCE(_to)[load], group_at[load], 0, wanted);                                \
            group_at[load] += 2 * SLAB_K;                                                                             \
        }                                                                                                             \
        COPY_SLAB(slabs + (at), WEIGHTS(_to), WEIGHT_LOADS, weights, weights_far, from_weights, count, wanted)        \
        weights_far += 2 * SLAB_K;                                                                                    \
    }
    MULTIPLY_DEPTH(p.total)
#elif WHOLE_TAPS
    // Where this work-item's groups of a tap lie, found once a tap.
    tap_place at[SOURCE_LOADS];
    OFFSET in_tap = 0;
#define STEP (2 * SLAB_K)   // bytes
#define FETCH(second)                                                                                                 \
    {                                                                                                                 \
        const int back = (second)*STEP, on = (second) ? 0 : (1 + PAIRED) * STEP;                                      \
        UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)                                                        \
        {                                                                                                             \
            SOURCE(_next)[load] = fetch_tap(source, at[load], in_tap, back);                                          \
            move_on(&at[load], on);                                                                                   \
        }                                                                                                             \
        FETCH_SLAB(WEIGHTS(_next), WEIGHT_LOADS, (const __global uchar*)weights - back, weights_far, from_weights,    \
                   WEIGHTS(_line), WEIGHTS(_k), SLAB_K)                                                               \
        in_tap += on;                                                                                                 \
        weights_far += on;                                                                                            \
    }
#define FETCHED                                                                                                       \
    UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)                                                            \
        SOURCE(_next)[load] = inside_tap(SOURCE(_next)[load], at[load]);
    const int taps = p.taps[0] * p.taps[1] * p.taps[2], slabs_of_tap = p.depth / SLAB_K;
    MULTIPLY_RUNS(taps, slabs_of_tap, {
        const int2 tap = table[begun * (slabs_of_tap * (SLAB_K / 8))];
        weights_far = weights_origin + begun * (2 * p.depth);
        UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)
            at[load] = find_tap_place(source, source_origin, zeros, PLACE(load), tap, 2 * SOURCE(_k));
        in_tap = 0;
    })
#else
    int k = 0;
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        const int2 tap = table[(k + SOURCE(_k)) / 8];                                                                 \
        UNROLL for (int load = 0; load < SOURCE_LOADS; ++load)                                                        \
            SOURCE(_next)[load] = gather_channels(source, zeros, places[load], tap, SOURCE(_k) < count);              \
        FETCH_SLAB(WEIGHTS(_next), WEIGHT_LOADS, weights, weights_far, from_weights, WEIGHTS(_line), WEIGHTS(_k),     \
                   count)                                                                                             \
        weights_far += 2 * count;                                                                                     \
        k += count;                                                                                                   \
    }
    MULTIPLY_DEPTH(p.total)
#endif

    result += result_offset + group * p.result_group + channel0 * (OFFSET)p.result_channel;
    bias += bias_offset + group * p.rows + channel0;
#if PIXELS_ARE_ROWS
#define PIXEL_AND_CHANNEL(i, j) (int2)(i, j)
#define LAST_OF_ROW channels
#else
#define PIXEL_AND_CHANNEL(i, j) (int2)(j, i)
#define LAST_OF_ROW pixels
#endif
    const int2 first_of_block = (int2)(pixel0, 0);
#if UNROLLED_END
    float4 biases[QUADS_OF_ITEM];
    EACH_QUAD_AHEAD(i, j, v, which, {
        const int channel = min(PIXEL_AND_CHANNEL(i, j).y, channels - 1);
        biases[which] = bias_of_quad(bias, &p, channel, channels - channel);
    }, {
        const int2 at = PIXEL_AND_CHANNEL(i, j);
        if (at.x < pixels && at.y < channels)
            finish_quad(v, result, biases[which], &p, first_of_block + at, LAST_OF_ROW - j);
    })
#else
    EACH_QUAD_OF_SUMS(i, j, v, {
        const int2 at = PIXEL_AND_CHANNEL(i, j);
        if (at.x < pixels && at.y < channels)
            finish_quad(v, result, bias_of_quad(bias, &p, at.y, channels - at.y), &p, first_of_block + at,
                        LAST_OF_ROW - j);
    })
#endif
}
