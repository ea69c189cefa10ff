// The weight gradient of a convolution of 16-bit floats by matrix instructions, as gpu_matrix_weight.cl computes it,
// for engines whose fragments come straight from global memory by loads that transpose (gemm/fragments_turned.cl).
//
//   dw[output][row] = sum over pixels of dy[pixel][output] * x[pixel][row],   rows are (tap, channel)
//
// in parts of the pixels, which add_parts.cl adds in order. Options: those of gpu_gather.cl and matrix_tiles.cl
// (-DA_ALONG_K=0 -DB_ALONG_K=0 -DALIGNED=1 -DBLOCKS=1), and
//   -DTOGETHER=1|2|4      neighbouring fragments of B that lie in one tap; 1: or in none alone
//   -DWHOLE_OUTPUTS=0|1   outputs are a multiple of a block's
#include "kernels/conv/gpu_gather.cl"
#include "kernels/gemm/matrix_tiles.cl"
#include "kernels/gemm/fragments_turned.cl"
#include "kernels/conv/gpu_matrix_gather.cl"
#include "kernels/conv/gpu_matrix_places.cl"

#define TAPS (FRAGMENTS_N / TOGETHER)   // places that a sub-group reads x at

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void conv_matrix_weight(WEIGHT_OPERANDS)
{
    BEGIN_WEIGHT_TILE
    const __global uchar* const zeros = (const __global uchar*)zeros_of(table, &p);

    const int own_line = turned_line(g.lane), own_k = turned_k(g.lane);
    const __global uchar* taps[TAPS];   // where a tap's channels lie, from tap 0 of pixel 0 on
    int tap_bits[TAPS];
    UNROLL for (int t = 0; t < TAPS; ++t)
    {
        const int beyond = p.total - (TOGETHER > 1 ? 16 * TOGETHER - own_line : 8);
        const int2 tap = table[min(row0 + column + 16 * TOGETHER * t + own_line, beyond) / 8];
        taps[t] = (const __global uchar*)x + tap.x - lead_of(&p);
        tap_bits[t] = tap.y;
    }
    const OFFSET k_step = 2 * p.result_axis[2];
    OFFSET far = 2 * ((OFFSET)(dy_offset + group * p.result_group) + output0) + begin * k_step;
    OFFSET lines[FRAGMENTS_M];
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
        lines[i] = 2 * (WHOLE_OUTPUTS ? row + own_line + 16 * i : min(row + own_line + 16 * i, (outputs - 1) / 8 * 8));
    const __global byte_place* places = (const __global byte_place*)(place_table + place_table_offset) + begin;

#define FETCH(place, dy_at)                                                                                           \
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                      \
        a[i] = load_turned(g, (const __global uchar*)dy + ((dy_at) + lines[i]));                                      \
    UNROLL for (int t = 0; t < TAPS; ++t)                                                                             \
    {                                                                                                                 \
        const __global uchar* from = tap_or_zeros(taps[t], zeros, place, tap_bits[t]);                                \
        UNROLL for (int e = 0; e < TOGETHER; ++e)                                                                     \
            b[t * TOGETHER + e] = load_turned(g, from + 32 * e);                                                      \
    }
#define MULTIPLY                                                                                                      \
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)                                                                      \
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                  \
            sums[i][j] = multiply_add(g, a[i], b[j], sums[i][j]);

    fragment_a a[FRAGMENTS_M];
    fragment_b b[FRAGMENTS_N];
    const int over = (end - begin) % FRAGMENT_K;
    if (over) {   // what is left over comes first
        const int k = min(own_k, over - 1);
        const byte_place place = places[k];
        FETCH(place, far + k * k_step)
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            a[i] = first_of_turned(g, a[i], over);
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
            b[j] = first_of_turned(g, b[j], over);
        MULTIPLY
    }
    places += over + own_k;
    far += (over + own_k) * k_step;
    byte_place coming = places[0];   // of the next step's pixels, behind the last of which there are some more
    for (int left = (end - begin) / FRAGMENT_K; left > 0; --left) {
        FETCH(coming, far)
        far += FRAGMENT_K * k_step;
        places += FRAGMENT_K;
        coming = places[0];
        LOADS_COME_FIRST
        MULTIPLY
    }

    WRITE_WEIGHT_SUMS
}
