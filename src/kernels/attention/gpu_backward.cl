// Attention on GPUs, backward. Memory: two blocks of the owner's rows, the slab, scores. Options: of gpu_tiles.cl.
//
//   probabilities = exp(s - logsumexp),   gradient of s = probabilities (grad_y V^T - delta)
//   grad_q = scale (gradient of s) K,   grad_k = scale (gradient of s)^T Q,   grad_v = probabilities^T grad_y
#include "kernels/attention/gpu_tiles.cl"

#define ALL_THERE (PARTS == 1)   // one slab holds all elements of the others, and so their lines as well

GROUP void backward_queries(BACKWARD_INPUTS, OUTPUT(grad_q), BACKWARD_SCALARS, __local REAL4* memory)
{
    const int x = ITEM_X, y = ITEM_Y;
    const long blocks = (p.queries + BLOCK - 1) / BLOCK;
    const long i0 = (blocks - 1 - (long)get_group_id(0) % blocks) * BLOCK, pair = (long)get_group_id(0) / blocks;
    const long b = pair / p.heads, h = pair % p.heads, kv_h = h / (p.heads / p.kv_heads), first_row = pair * p.queries;
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    mask += mask_offset + AT_HEAD(p.mask, b, h) + i0 * p.mask.row;
    __local REAL4 *queries = memory, *grad_rows = queries + OWN_QUADS, *slab = grad_rows + OWN_QUADS;
    __local REAL4* scores = slab + SLAB_QUADS;
    REAL4 sums[ROWS][COLUMNS];
    REAL exponents[ROWS], common[ROWS];
    EACH_ROW {
        const long i = min(i0 + ROW, p.queries - 1);
        exponents[r] = exponent_of(logsumexp[logsumexp_offset + first_row + i], 1);
        common[r] = delta[delta_offset + first_row + i];
        EACH_COLUMN sums[r][c] = (REAL4)0;
    }
    fetch_own(q + q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row, lines_of(p.q, p.queries - i0, p.size), queries);
    fetch_own(grad_y + grad_y_offset + AT_HEAD(grad.y, b, h) + i0 * grad.y.row,
              lines_of(grad.y, p.queries - i0, p.value_size), grad_rows);
    const long visible = visible_keys(&p, min(p.queries, i0 + BLOCK));
    for (long j0 = 0; j0 < visible; j0 += SPAN) {
        const head_lines keys = lines_of(p.k, p.keys - j0, p.size), rows = lines_of(p.v, p.keys - j0, p.value_size);
        REAL4 values[ROWS], grad_p[ROWS];
        DOT(grad_p, grad_rows, v + j0 * p.v.row, rows, slab)
#ifdef DROPOUT
        put_dropout(&p, &dropout, first_row + i0, j0, scores);
#endif
        DOT(values, queries, k + j0 * p.k.row, keys, slab)
        finish_scores(&p, mask, i0, j0, scale * LOG2_E, values);
        EACH_ROW {
#ifdef DROPOUT
            grad_p[r] *= scores[ROW * SCORE_PITCH + x];
#endif
            scores[ROW * SCORE_PITCH + x] = exp2(values[r] - exponents[r]) * (grad_p[r] - common[r]);
        }
        ADD(sums, scores, k + j0 * p.k.row, keys, slab, ALL_THERE)
    }
    put_rows(sums, scale, grad_q + grad_q_offset + AT_HEAD(grad.q, b, h) + i0 * grad.q.row, grad.q, p.queries - i0,
             p.size);
}

// As finish_scores, where the rows are keys from j0 and the others queries from i0 on; `mask` points to its column j0.
static inline void finish_turned_scores(const attention_problem* p, const __global stored* mask, long i0, long j0,
                                        REAL scale, REAL4 values[ROWS])
{
    const int y = ITEM_Y, queries = clamped(p->queries - i0, SPAN);
    EACH_ROW {
        values[r] *= scale;
#ifdef MASKED
        const int2 last = (int2)((int)min(p->keys - j0, (long)BLOCK) - 1, queries - 1);
        values[r] += mask_quad(mask + i0 * p->mask.row, ROW, (OFFSET)p->mask.column, (OFFSET)p->mask.row, last);
#endif
    }
    if (!p->causal || j0 + BLOCK - 1 <= i0 + p->causal_offset)
        return;
    // The first query that sees row 0, from -BLOCK (all see all) to SPAN.
    const int seen = clamped(j0 - p->causal_offset - i0 + BLOCK, BLOCK + SPAN) - BLOCK;
    EACH_ROW values[r] = hidden_outside(values[r], seen + ROW, queries);
}

GROUP void backward_keys(BACKWARD_INPUTS, OUTPUT(grad_k), OUTPUT(grad_v), BACKWARD_SCALARS, __local REAL4* memory)
{
    const int x = ITEM_X, y = ITEM_Y;
    const long blocks = (p.keys + BLOCK - 1) / BLOCK, group = p.heads / p.kv_heads;
    const long j0 = (long)get_group_id(0) % blocks * BLOCK, pair = (long)get_group_id(0) / blocks;
    const long b = pair / p.kv_heads, kv_h = pair % p.kv_heads;
    __local REAL4 *keys = memory, *values_rows = keys + OWN_QUADS, *slab = values_rows + OWN_QUADS;
    __local REAL4* scores = slab + SLAB_QUADS;
    REAL4 key_sums[ROWS][COLUMNS], value_sums[ROWS][COLUMNS];
    EACH_ROW EACH_COLUMN key_sums[r][c] = value_sums[r][c] = (REAL4)0;
    fetch_own(k + k_offset + AT_HEAD(p.k, b, kv_h) + j0 * p.k.row, lines_of(p.k, p.keys - j0, p.size), keys);
    fetch_own(v + v_offset + AT_HEAD(p.v, b, kv_h) + j0 * p.v.row, lines_of(p.v, p.keys - j0, p.value_size),
              values_rows);
    for (long h = kv_h * group; h < (kv_h + 1) * group; ++h) {
        const __global stored* mask_head = mask + mask_offset + AT_HEAD(p.mask, b, h) + j0 * p.mask.column;
        const long first_row = (b * p.heads + h) * p.queries;
        for (long i0 = first_query(&p, j0) / SPAN * SPAN; i0 < p.queries; i0 += SPAN) {
            const __global stored *q_block = q + (q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row);
            const __global stored* grad_block = grad_y + (grad_y_offset + AT_HEAD(grad.y, b, h) + i0 * grad.y.row);
            const head_lines queries = lines_of(p.q, p.queries - i0, p.size);
            const head_lines grads = lines_of(grad.y, p.queries - i0, p.value_size);
            REAL4 values[ROWS], grad_p[ROWS];
#ifdef DROPOUT
            // Before there are values: registers are few beside both sums.
            SYNCHRONIZE;
            put_turned_dropout(&p, &dropout, first_row + i0, j0, scores);
#endif
            DOT(values, keys, q_block, queries, slab)
            DOT(grad_p, values_rows, grad_block, grads, slab)
            finish_turned_scores(&p, mask_head, i0, j0, scale * LOG2_E, values);
            const __global REAL* sums_of = logsumexp + logsumexp_offset + first_row + i0;
            const __global REAL* delta_of = delta + delta_offset + first_row + i0;
            const int count = (int)min(p.queries - i0, (long)SPAN);
#define OF_QUERIES(WHAT) (REAL4)(WHAT(x), WHAT(x + SIDE_X), WHAT(x + 2 * SIDE_X), WHAT(x + 3 * SIDE_X))
#define EXPONENT(i) exponent_of(sums_of[min(i, count - 1)], (i) < count)
#define COMMON(i) delta_of[min(i, count - 1)]
            const REAL4 exponents = OF_QUERIES(EXPONENT);
            EACH_ROW values[r] = exp2(values[r] - exponents);
            const REAL4 common = OF_QUERIES(COMMON);
            EACH_ROW {
                REAL4 kept = values[r];
#ifdef DROPOUT
                const REAL4 factor = scores[ROW * SCORE_PITCH + x];
                kept *= factor;
                grad_p[r] *= factor;
#endif
                grad_p[r] = values[r] * (grad_p[r] - common);
                scores[ROW * SCORE_PITCH + x] = kept;
            }
            ADD(value_sums, scores, grad_block, grads, slab, ALL_THERE)
            SYNCHRONIZE;
            EACH_ROW scores[ROW * SCORE_PITCH + x] = grad_p[r];
            ADD(key_sums, scores, q_block, queries, slab, 0)
        }
    }
    if (grad_k)
        put_rows(key_sums, scale, grad_k + grad_k_offset + AT_HEAD(grad.k, b, kv_h) + j0 * grad.k.row, grad.k,
                 p.keys - j0, p.size);
    if (grad_v)
        put_rows(value_sums, 1, grad_v + grad_v_offset + AT_HEAD(grad.v, b, kv_h) + j0 * grad.v.row, grad.v,
                 p.keys - j0, p.value_size);
}
