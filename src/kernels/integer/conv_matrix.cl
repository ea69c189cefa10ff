// Convolutions of eight-bit integers on GPUs by matrix instructions: an implicit product over the tiles of
// gemm/matrix_tiles.cl, rows of which are pixels and columns output channels.
//
// x has its channels innermost, as many as a multiple of 16, so that each 16 bytes along k = (tap, channel) lie at one
// tap; what is outside of x is its zero point. All that is said of x in gpu_conv_problem counts pairs of bytes. Weights
// are lines of signed bytes with their sums and zero points (pack_lines of gpu.cl).
//
// Options: those of conv/gpu_gather.cl, those of matrix_tiles.cl (-DX=int8 -DA_ALONG_K=1 -DB_ALONG_K=1 -DALIGNED=1
// -DBLOCKS=0), and
//   -DFROM=int8|uint8 -DY=..   of x, and of y as in conv_epilogue.cl
//   -DFLIP=0|1                 bytes of x are taken for signed ones less 128
//   -DROW_SUMS=0|1             weights have zero points
//   -DQUADS=0|1                four channels of y are stored at once
#include "kernels/conv/gpu_gather.cl"
#include "core/quad.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/conv/gpu_matrix_gather.cl"
#include "kernels/integer/conv_epilogue.cl"

#define FLIPPED (FLIP ? 0x80808080u : 0u)

// Sixteen channels of a tap; the zero point outside of x, 0 behind the end of k.
static inline uint4 gather_bytes(const __global uchar* source, byte_place place, int2 tap, int wanted, uint fill)
{
#if INSIDE
    const int inside = wanted;
#else
    const int inside = wanted && !(place.outside & tap.y);
#endif
    const uint4 v = *(const __global uint4*)(source + (inside ? place.first + tap.x : 0));
    return inside ? v ^ FLIPPED : wanted ? (uint4)fill : (uint4)0;
}

static inline int sum_of_bytes(uint4 v)
{
    const uint4 all = A_UNSIGNED ? v : v ^ 0x80808080u, pairs = (all & 0x00ff00ffu) + (all >> 8 & 0x00ff00ffu);
    const uint sums = pairs.x + pairs.y + pairs.z + pairs.w;
    return (int)((sums & 0xffffu) + (sums >> 16)) - (A_UNSIGNED ? 0 : 16 * 128);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_matrix(const __global uchar* restrict x, ulong x_offset, const __global storage_t(FROM)* x_zero,
                 ulong x_zero_offset, const __global uchar* restrict weights, ulong weights_offset,
                 const __global int2* weight_facts, ulong weight_facts_offset, ENDING_ARGUMENTS,
                 __global storage_t(Y)* y, ulong y_offset, const __global int2* restrict table, ulong table_offset,
                 gpu_conv_problem p, integer_conv_problem q, uint words)
{
    BEGIN_MATRIX_TILE
#if ROW_SUMS
    __local int row_sums[BLOCK_M];
    int own_sums[A_LOADS];
    UNROLL for (int load = 0; load < A_LOADS; ++load)
        own_sums[load] = 0;
#define COUNT(load) own_sums[load] += sum_of_bytes(a_next[load]);
#else
#define COUNT(load)
#endif
    const int pixel0 = get_group_id(0) * BLOCK_M, channel0 = get_group_id(1) * BLOCK_N;
    const int pixels = min(p.pixels - pixel0, BLOCK_M), channels = min(p.rows - channel0, BLOCK_N);
    const int zero = (int)AT(x_zero + x_zero_offset, q.x_zero, 0);
    const uint fill = (zero & 0xff) * 0x01010101u ^ FLIPPED;
    table += table_offset / 2;

    BEGIN_SLABS
    const slab_source from_weights = {4 * (OFFSET)words, 2, channels - 1, 1, BLOCK_N};
    // Each is found once, and through local memory, or compilers find them anew in every step of the loop.
    __local byte_place* const found = (__local byte_place*)memory;
    for (int line = item; line < BLOCK_M; line += ITEMS)
        found[line] = find_bytes(&p, pixel0 + min(line, pixels - 1), x_offset / 2);
    barrier(CLK_LOCAL_MEM_FENCE);
    byte_place places[A_LOADS];
    UNROLL for (int load = 0; load < A_LOADS; ++load)
        places[load] = found[a_line + LINES_ON(load, 1, BLOCK_M)];
    barrier(CLK_LOCAL_MEM_FENCE);
    OFFSET weights_far = 4 * ((OFFSET)weights_offset + (OFFSET)channel0 * words);
    int k = 0;
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        const int2 tap = table[(k + a_k) / 8];                                                                        \
        UNROLL for (int load = 0; load < A_LOADS; ++load)                                                             \
        {                                                                                                             \
            a_next[load] = gather_bytes(x, places[load], tap, a_k < count, fill);                                     \
            COUNT(load)                                                                                               \
        }                                                                                                             \
        FETCH_SLAB(b_next, B_LOADS, weights, weights_far, from_weights, b_line, b_k, count)                           \
        weights_far += 2 * count;                                                                                     \
        k += count;                                                                                                   \
    }
    MULTIPLY_DEPTH(p.total)

#if ROW_SUMS
    for (int line = item; line < BLOCK_M; line += ITEMS)
        row_sums[line] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int load = 0; load < A_LOADS; ++load)
        atomic_add(&row_sums[a_line + LINES_ON(load, 1, BLOCK_M)], own_sums[load]);
#define ROW_SUM(i) row_sums[i]
#else
#define ROW_SUM(i) 0
#endif
    const conv_ending ending = ENDING(q);
    weight_facts += weight_facts_offset / 2 + channel0;
    y += y_offset + channel0 * (OFFSET)p.result_channel;
    const int x_taken = zero - (FLIP ? 128 : 0);
    EACH_QUAD_OF_SUMS(i, j, v, {
        if (i < pixels && j < channels) {
            const int row_sum = ROW_SUM(i) - 2 * p.total * x_taken;
            FOUR_VALUES(const int, sums_of_four, v);
            __global storage_t(Y)* to = y + result_place(&p, find_position(&p, pixel0 + i)) +
                                        j * (OFFSET)p.result_channel;
            result ends[4];
            UNROLL for (int e = 0; e < 4; ++e)
            {
                const int channel = min(j + e, channels - 1);
                const int2 facts = weight_facts[channel];
                ends[e] = ended(&ending, sums_of_four[e] - x_taken * facts.x - (ROW_SUMS ? facts.y * row_sum : 0),
                                channel0 + channel);
#if !QUADS
                if (j + e < channels)
                    to[e * (OFFSET)p.result_channel] = (storage_t(Y))ends[e];
#endif
            }
#if QUADS
            store_quad(Y, to, (quad_t(Y))((storage_t(Y))ends[0], (storage_t(Y))ends[1], (storage_t(Y))ends[2],
                                          (storage_t(Y))ends[3]));
#endif
        }
    })
}
