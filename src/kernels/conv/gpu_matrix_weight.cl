// The weight gradient of a convolution of 16-bit floats by matrix instructions: an implicit matrix product over the
// tiles of gemm/matrix_tiles.cl.
//
//   dw[output][row] = sum over pixels of dy[pixel][output] * x[pixel][row],   rows are (tap, channel)
//
// in parts of the pixels, which add_parts.cl adds in order. Both tensors have their channels innermost, as many as a
// multiple of eight, and dy's pixels lie at one distance: neighbours are brought along lines, eight channels of x at
// one tap. Options: those of gpu_gather.cl and matrix_tiles.cl (-DA_ALONG_K=0 -DB_ALONG_K=0 -DALIGNED=1 -DBLOCKS=0).
#if defined(ENGINE_WMMA) || (defined(ENGINE_WMMA12) && FRAGMENTS_M * FRAGMENTS_N > 12)   // places take the registers
#define SLABS_IN_PAIRS 0
#endif
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/conv/gpu_matrix_gather.cl"
#include "kernels/conv/gpu_matrix_places.cl"

static inline uint4 gather_ahead(const __global uchar* tap, const __global uint4* zeros, byte_place place, int bits,
                                 int wanted)
{
#if !INSIDE
    wanted &= !(place.outside & bits);
#endif
    return *(const __global uint4*)(wanted ? tap + place.first : (const __global uchar*)zeros);
}

// The places of two pixels, in one load.
#if OFFSET_IS_WHOLE
typedef uint4 place_pair;
#define PLACE_OF(two, odd) ((odd) ? (byte_place){(two).z, (int)(two).w} : (byte_place){(two).x, (int)(two).y})
#else
typedef struct {
    byte_place of[2];
} place_pair;
#define PLACE_OF(two, odd) (two).of[odd]
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_matrix_weight(WEIGHT_OPERANDS)
{
    BEGIN_WEIGHT_TILE
    const __global uint4* const zeros = zeros_of(table, &p);

    BEGIN_SLABS
    const slab_source from_dy = {2, 2 * p.result_axis[2], outputs - 1, 0, BLOCK_M};
    const __global uchar* taps[B_LOADS];   // where a tap's channels lie, from tap 0 of pixel 0 on
    int tap_bits[B_LOADS];
    UNROLL for (int load = 0; load < B_LOADS; ++load)
    {
        const int2 tap = table[min(row0 + b_line + LINES_ON(load, 0, BLOCK_N), p.total - 8) / 8];
        taps[load] = (const __global uchar*)x + tap.x - lead_of(&p);
        tap_bits[load] = tap.y;
    }
    OFFSET dy_far = 2 * ((OFFSET)(dy_offset + group * p.result_group) + output0) + begin * (OFFSET)from_dy.k_step;
    // Places pass through local memory, once for the whole group; those of the slab after the next are on their way.
    __local place_pair found[SLAB_K];
    __local byte_place* const found_one = (__local byte_place*)found;
    const __global byte_place* places = (const __global byte_place*)(place_table + place_table_offset) + (begin + item);
    byte_place coming;
    int here = 0;
    if (item < SLAB_K) {
        const int over = (end - begin) % SLAB_K;
        found_one[item] = places[0];
        places += over ? over : SLAB_K;
        coming = places[0];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        FETCH_SLAB(a_next, A_LOADS, dy, dy_far, from_dy, a_line, a_k, count)                                          \
        UNROLL for (int load = 0; load < B_LOADS; load += 2)                                                          \
        {                                                                                                             \
            const int k = b_k + DEPTH_ON(load, 0, BLOCK_N);                                                           \
            const place_pair two = found[(here + k) / 2];                                                             \
            b_next[load] = gather_ahead(taps[load], zeros, PLACE_OF(two, 0), tap_bits[load],                          \
                                        (count) == SLAB_K || k < (count));                                            \
            b_next[load + 1] = gather_ahead(taps[load], zeros, PLACE_OF(two, 1), tap_bits[load],                      \
                                            (count) == SLAB_K || k + 1 < (count));                                    \
        }                                                                                                             \
        dy_far += count * from_dy.k_step;                                                                             \
        here = SLAB_K - here;                                                                                         \
        if (item < SLAB_K) {                                                                                          \
            found_one[here + item] = coming;                                                                          \
            places += SLAB_K;                                                                                         \
            coming = places[0];                                                                                       \
        }                                                                                                             \
    }
    MULTIPLY_DEPTH(end - begin)

    WRITE_WEIGHT_SUMS
}
