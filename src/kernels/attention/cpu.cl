// Attention on CPU devices. One work-item owns up to plan.rows queries of one head and passes over all keys that they
// see:
//
//                         queries, in panels of TILE_COLUMNS: one query a lane
//                         +--------+--------+
//     a block of keys,    | scores | ...    |    scores of one panel rest in local memory (first-level cache): maxima,
//     one row a key       |        |        |    exponentials and sums need no step across lanes
//                         +--------+--------+
//     sums: value_size x TILE_COLUMNS a panel, value's elements times scores; divided and turned at the end
//
// Both products are the register tiles of gemm, with scalars from the rows of keys and values and vectors of queries.
// Options: those of problem.cl, -DSTEP: from row to row of packed keys and values, -DDROPOUT, -DTILE_ROWS.
#include "kernels/attention/tiles.cl"

// One half of a panel: scores to probabilities that are not divided yet, and the largest score and the sum so far.
// `hidden` is the first key of the block that the half's first query does not see.
static inline void soften(__local REAL* scores, const __local REAL* bias, int count, long hidden, REAL scale,
                          float softcap, __local REAL* best, __local REAL* total, __local REAL* correction)
{
    tile_vector largest = TILE_VLOAD(0, best);
    const tile_vector before = largest;
    for (int j = 0; j < count; ++j) {
        const __local REAL* added = bias ? bias + j * TILE_COLUMNS : 0;
        const tile_vector own = capped(TILE_VLOAD(0, scores + j * TILE_COLUMNS) * scale, softcap);
        const tile_vector s = hide_first(added ? own + TILE_VLOAD(0, added) : own, j - hidden + 1);
        TILE_VSTORE(s, 0, scores + j * TILE_COLUMNS);
        largest = s > largest ? s : largest;
    }
    const tile_vector reference = finite_best(largest), again = exp_lanes(before - reference);
    tile_vector sum = TILE_VLOAD(0, total) * again;
    for (int j = 0; j < count; ++j) {
        const tile_vector e = exp_lanes(TILE_VLOAD(0, scores + j * TILE_COLUMNS) - reference);
        sum += e;
        TILE_VSTORE(e, 0, scores + j * TILE_COLUMNS);
    }
    TILE_VSTORE(largest, 0, best);
    TILE_VSTORE(sum, 0, total);
    TILE_VSTORE(again, 0, correction);
}

__kernel TILE_TASK
void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(y), __global REAL* logsumexp, ulong logsumexp_offset,
             attention_problem p, forward_plan plan, attention_dropout dropout, REAL scale, __local REAL* memory)
{
    // The last rows come first: of a causal problem they see most keys.
    const long block = plan.blocks - 1 - (long)get_group_id(0) % plan.blocks,
               pair = (long)get_group_id(0) / plan.blocks;
    const long b = pair / p.heads, h = pair % p.heads, kv_h = h / (p.heads / p.kv_heads);
    const long i0 = block * plan.rows, rows = min(plan.rows, p.queries - i0);
    const long panels = (rows + TILE_COLUMNS - 1) / TILE_COLUMNS;
    q += q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row;
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    y += y_offset + AT_HEAD(p.y, b, h) + i0 * p.y.row;

    const long sums_size = (p.value_size + 3) / 4 * 4;
    __local REAL* scores = memory;                                      // keys x TILE_COLUMNS
    __local REAL* bias = scores + plan.keys * TILE_COLUMNS;             // the same, where there is a mask
    __local REAL* keys = bias + (p.masked ? plan.keys * TILE_COLUMNS : 0);
    __local REAL* values = keys + plan.keys * STEP;
    __local REAL* queries = values + plan.keys * STEP;                  // panels x size x TILE_COLUMNS
    __local REAL* sums = queries + panels * p.size * TILE_COLUMNS;      // panels x sums_size x TILE_COLUMNS
    __local REAL* best = sums + panels * sums_size * TILE_COLUMNS;      // panels x TILE_COLUMNS
    __local REAL* total = best + panels * TILE_COLUMNS;                 // the same
    __local REAL* correction = total + panels * TILE_COLUMNS;           // TILE_COLUMNS

    for (long panel = 0; panel < panels; ++panel)
        pack_panel(q + panel * TILE_COLUMNS * p.q.row, p.q.row, p.q.column, rows - panel * TILE_COLUMNS, p.size,
                   queries + panel * p.size * TILE_COLUMNS);
    for (long i = 0; i < panels * TILE_COLUMNS; i += TILE_LANES) {
        TILE_VSTORE(HIDDEN, 0, best + i);
        TILE_VSTORE((tile_vector)0, 0, total + i);
    }
    clear(sums, panels * sums_size * TILE_COLUMNS);

    const long visible = visible_keys(&p, i0 + rows);
    for (long j0 = 0; j0 < visible; j0 += plan.keys) {
        const long in_block = min(plan.keys, visible - j0);
        for (int side = 0; side < 2; ++side) {   // one piece of code, since compilers inline it
            const heads_layout layout = side ? p.v : p.k;
            pack_rows((side ? v : k) + j0 * layout.row, layout, in_block, side ? p.value_size : p.size,
                      side ? values : keys);
        }
        for (long panel = 0; panel < panels; ++panel) {
            const long first = i0 + panel * TILE_COLUMNS, lanes = min((long)TILE_COLUMNS, i0 + rows - first);
            const int count = (int)min(in_block, visible_keys(&p, first + lanes) - j0), wide = lanes > TILE_LANES;
            if (count <= 0)
                continue;
            score_panel(keys, count, queries + panel * p.size * TILE_COLUMNS, (int)p.size, scores, wide);
            if (p.masked)
                pack_mask(mask + mask_offset + AT_HEAD(p.mask, b, h) + first * p.mask.row + j0 * p.mask.column,
                          p.mask.row, p.mask.column, lanes, count, bias);
            for (int half_panel = 0; half_panel < lanes; half_panel += TILE_LANES) {
                const long i = first + half_panel, at = panel * TILE_COLUMNS + half_panel;
                soften(scores + half_panel, p.masked ? bias + half_panel : 0, count, first_hidden(&p, i) - j0, scale,
                       SOFTCAP_OF(p), best + at, total + at, correction + half_panel);
#ifdef DROPOUT
                const ulong row_blocks = (p.keys + 3) / 4;
                multiply_factors(scores + half_panel, count, ((b * p.heads + h) * p.queries + i) * row_blocks + j0 / 4,
                                 row_blocks, &dropout);
#endif
            }
            add_rows(values, count, scores, (int)p.value_size, sums + panel * sums_size * TILE_COLUMNS, correction,
                     wide);
        }
    }

    for (long at = 0; at < rows; at += TILE_LANES) {
        const long panel = at / TILE_COLUMNS;
        put_panel(sums + panel * sums_size * TILE_COLUMNS + at % TILE_COLUMNS, TILE_VLOAD(0, total + at),
                  y + at * p.y.row, p.y, rows - at, p.value_size);
        if (logsumexp)
            put_sums(TILE_VLOAD(0, best + at) + log(TILE_VLOAD(0, total + at)),
                     logsumexp + logsumexp_offset + (b * p.heads + h) * p.queries + i0 + at, rows - at);
    }
}
