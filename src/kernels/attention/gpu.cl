// Attention on GPUs, forward. Memory: queries, the slab, scores, BLOCK x SIDE_X. Options: those of gpu_tiles.cl.
#define KEEP_FINITE
#include "kernels/attention/gpu_tiles.cl"

static inline REAL largest_of(REAL4 v) { return fmax(fmax(v.x, v.y), fmax(v.z, v.w)); }

GROUP void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(result), __global REAL* logsumexp,
                   ulong logsumexp_offset, attention_problem p, attention_dropout dropout, REAL scale,
                   __local REAL4* memory)
{
    const int x = ITEM_X, y = ITEM_Y;
    const int blocks = (int)((p.queries + BLOCK - 1) / BLOCK), pair = (int)get_group_id(0) / blocks;
    const int i0 = (blocks - 1 - (int)get_group_id(0) % blocks) * BLOCK;
    const int b = pair / (int)p.heads, h = pair % (int)p.heads, kv_h = h / (int)(p.heads / p.kv_heads);
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    mask += mask_offset + AT_HEAD(p.mask, b, h) + i0 * p.mask.row;
    __local REAL4 *queries = memory, *slab = queries + OWN_QUADS, *scores = slab + SLAB_QUADS;
    __local REAL4* shared = scores + SCORE_QUADS;   // what the SIDE_X work-items of each row found
    __local REAL* shared_item = (__local REAL*)shared + x;
    REAL4 sums[ROWS][COLUMNS];
    REAL best[ROWS], total[ROWS];   // best: of scores to the base 2, which what is exponentiated is relative to
    EACH_ROW {
        best[r] = -INFINITY;
        total[r] = 0;
        EACH_COLUMN sums[r][c] = (REAL4)0;
    }
    fetch_own(q + q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row, lines_of(p.q, p.queries - i0, p.size), queries);
    const int visible = (int)visible_keys(&p, min(p.queries, (long)i0 + BLOCK));
    for (int j0 = 0; j0 < visible; j0 += SPAN) {
        const head_lines keys = lines_of(p.k, p.keys - j0, p.size), rows = lines_of(p.v, p.keys - j0, p.value_size);
        REAL4 values[ROWS];
        DOT(values, queries, k + j0 * p.k.row, keys, slab)
        finish_scores(&p, mask, i0, j0, scale * LOG2_E, values);
#ifdef DROPOUT
        put_dropout(&p, &dropout, pair * p.queries + i0, j0, scores);
#endif
        EACH_ROW shared_item[ROW * SIDE_X] = largest_of(values[r]);
        SYNCHRONIZE;
        fetch_lines(v + j0 * p.v.row, rows, 0, slab);
        EACH_ROW {
            REAL largest = best[r];
#pragma unroll
            for (int quad = 0; quad < SIDE_X / 4; ++quad)
                largest = fmax(largest, largest_of(shared[ROW * (SIDE_X / 4) + quad]));
            const REAL reference = largest == (REAL)-INFINITY ? (REAL)0 : largest, again = exp2(best[r] - reference);
            best[r] = largest;
            EACH_COLUMN sums[r][c] *= again;
            REAL4 probabilities = exp2(values[r] - reference);
            total[r] = fma(total[r], again, probabilities.x + probabilities.y + (probabilities.z + probabilities.w));
#ifdef DROPOUT
            probabilities *= scores[ROW * SCORE_PITCH + x];
#endif
            scores[ROW * SCORE_PITCH + x] = probabilities;
        }
        ADD(sums, scores, v + j0 * p.v.row, rows, slab, part == 0)
    }
    SYNCHRONIZE;
    EACH_ROW shared_item[ROW * SIDE_X] = total[r];
    SYNCHRONIZE;
    EACH_ROW {
        REAL4 four = (REAL4)0;
#pragma unroll
        for (int quad = 0; quad < SIDE_X / 4; ++quad)
            four += shared[ROW * (SIDE_X / 4) + quad];
        const REAL sum = four.x + four.y + (four.z + four.w), inverse = sum == 0 ? (REAL)0 : 1 / sum;
        EACH_COLUMN sums[r][c] *= inverse;
        if (logsumexp && x == 0 && i0 + ROW < p.queries)
            logsumexp[logsumexp_offset + pair * p.queries + i0 + ROW] = (best[r] + log2(sum)) * LN_2;
    }
    put_rows(sums, 1, result + result_offset + AT_HEAD(p.y, b, h) + i0 * p.y.row, p.y, p.queries - i0, p.value_size);
}
