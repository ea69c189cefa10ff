// Gradients of keys and values on CPU devices, from probabilities that are computed again. A work-item owns plan.panels
// panels of keys at a time, one key a lane, and passes over the queries in blocks of plan.rows:
//
//                          keys and values, turned: panels of TILE_COLUMNS lanes
//                          +--------+--------+
//     a block of queries,  | scores | ...    |   probabilities and gradients of scores, one row a query, rest in local
//     one row a query      |        |        |   memory, from the two products that make them to the three they go to
//                          +--------+--------+
//     sums of the gradients of keys and values: one element a row, one key a lane
//
// With want_q it owns all keys of a head, and so also adds up the gradient of the queries, in `sums`: five products,
// where two owners (the other one: cpu_backward_queries.cl) need seven. Options: those of cpu.cl.
#include "kernels/attention/tiles.cl"

typedef struct {
    long rows, panels;   // of queries in a block, a multiple of 12; of keys
    long blocks;         // of panels in each head; 1: the work-item passes over all of them
    long sums_rows, sums_columns;   // of a head in `sums`: whole fours and whole panels
} keys_plan;

// Keys as they lie, in panels of TILE_COLUMNS elements: to[(panel * keys + j) * TILE_COLUMNS + e]; zero outside.
static inline void pack_columns(const __global storage_t(X)* k, heads_layout layout, long keys, long size,
                                long all_keys, __local REAL* to)
{
    for (long e = 0; e < size; e += TILE_COLUMNS)
        for (long j = 0; j < all_keys; ++j)
            for (long low = e; low < e + TILE_COLUMNS; low += TILE_LANES)
                TILE_VSTORE(j < keys && low < size
                                ? get_row(k + j * layout.row + low * layout.column, layout.column, size - low)
                                : (tile_vector)0,
                            0, to + e * all_keys + j * TILE_COLUMNS + low - e);
}

// One row of one half of a panel: the score to the dropped probability, the gradient of the probability to that of the
// score, with `scale`. `factors` is 0 without dropout.
static inline void turn_back(tile_vector s, REAL logsumexp, REAL delta, REAL scale, const __local REAL* factors,
                             __local REAL* probability, __local REAL* gradient)
{
    const tile_vector e = exp_lanes(s - (logsumexp == (REAL)-INFINITY ? (REAL)INFINITY : logsumexp));
    const tile_vector factor = factors ? TILE_VLOAD(0, factors) : (tile_vector)1;
    TILE_VSTORE(e * factor, 0, probability);
    TILE_VSTORE(e * (TILE_VLOAD(0, gradient) * factor - delta) * scale, 0, gradient);
}

// sums[r][column] += gradients[r] . columns, for N rows and one panel of columns; gradients lie in panels of
// panel_step, each with TILE_COLUMNS keys, the last with fewer: `keys` in all.
#define QUERY_TILE(N, half, gradients, sums, unused)                                                        \
    {                                                                                                       \
        TILE_DECLARE                                                                                        \
        TILE_LOAD_OF(N, half, sums, step)                                                                   \
        for (long j = 0; j < keys; j += TILE_COLUMNS) {                                                     \
            const __local REAL* restrict tile_rows = gradients + j / TILE_COLUMNS * panel_step;             \
            const __local REAL* restrict tile_panel = columns + j * TILE_COLUMNS;                           \
            const int depth = (int)min((long)TILE_COLUMNS, keys - j);                                       \
            TILE_MULTIPLY_OF(N, half, tile_rows, TILE_COLUMNS, 1, tile_panel, depth)                        \
        }                                                                                                   \
        TILE_STORE_OF(N, half, sums, step)                                                                  \
    }

static inline void add_to_queries(const __local REAL* gradients, long panel_step, const __local REAL* columns,
                                  long keys, long rows, __global REAL* sums, long step)
{
    for (long r = 0; r < rows; r += TILE_ROWS) {
        const __local REAL* from = gradients + r * TILE_COLUMNS;
        __global REAL* target = sums + r * step;
        TILE_FOR(rows - r, TILE_COLUMNS, QUERY_TILE, from, target, 0)
    }
}

__kernel TILE_TASK
void backward_keys(BACKWARD_INPUTS, OUTPUT(grad_q), OUTPUT(grad_k), OUTPUT(grad_v), __global REAL* sums,
                   ulong sums_offset, keys_plan plan, BACKWARD_SCALARS, __local REAL* memory)
{
    const long block = (long)get_group_id(0) % plan.blocks, pair = (long)get_group_id(0) / plan.blocks;
    const long b = pair / p.kv_heads, kv_h = pair % p.kv_heads, group = p.heads / p.kv_heads;
    const long width = plan.panels * TILE_COLUMNS;
    const long j_begin = plan.blocks > 1 ? block * width : 0,
               j_end = plan.blocks > 1 ? min(p.keys, j_begin + width) : p.keys;
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);
    sums += sums_offset;

    const long size4 = (p.size + 3) / 4 * 4, value_size4 = (p.value_size + 3) / 4 * 4,
               panel_step = plan.rows * TILE_COLUMNS;
    __local REAL* keys = memory;                                  // panels x size x TILE_COLUMNS
    __local REAL* values = keys + width * p.size;                 // panels x value_size x TILE_COLUMNS
    __local REAL* columns = values + width * p.value_size;        // width x sums_columns, with want_q
    __local REAL* key_sums = columns + (grad.want_q ? width * plan.sums_columns : 0);   // panels x size4 x TILE_COLUMNS
    __local REAL* value_sums = key_sums + width * size4;          // panels x value_size4 x TILE_COLUMNS
    __local REAL* queries = value_sums + width * value_size4;     // rows x STEP
    __local REAL* grad_rows = queries + plan.rows * STEP;         // the same
    __local REAL* scores = grad_rows + plan.rows * STEP;          // panels x rows x TILE_COLUMNS
    __local REAL* gradients = scores + plan.panels * panel_step;  // the same
    __local REAL* bias = gradients + plan.panels * panel_step;    // rows x TILE_COLUMNS, where there is a mask
    __local REAL* factors = bias + (p.masked ? panel_step : 0);   // the same, with dropout

    if (grad.want_q)
        for (long at = 0; at < group * plan.sums_rows * plan.sums_columns; at += TILE_LANES)
            TILE_VSTORE((tile_vector)0, 0,
                        sums + (b * p.heads + kv_h * group) * plan.sums_rows * plan.sums_columns + at);
    for (long j0 = j_begin; j0 < j_end; j0 += width) {
        const long in_block = min(width, p.keys - j0);
        for (int side = 0; side < 2; ++side) {   // of the products: one piece of code, since compilers inline it
            const __global storage_t(X)* from = side ? v : k;
            const heads_layout* layout = side ? &p.v : &p.k;
            const long size = side ? p.value_size : p.size;
            __local REAL* to = side ? values : keys;
            for (long j = 0; j < in_block; j += TILE_COLUMNS)
                pack_panel(from + (j0 + j) * layout->row, layout->row, layout->column, in_block - j, size,
                           to + j * size);
        }
        if (grad.want_q)
            pack_columns(k + j0 * p.k.row, p.k, in_block, p.size, width, columns);
        clear(key_sums, width * (size4 + value_size4));
        for (long h = kv_h * group; h < (kv_h + 1) * group; ++h)
            for (long i0 = first_query(&p, j0) / 4 * 4; i0 < p.queries; i0 += plan.rows) {
                const int rows = (int)min(plan.rows, p.queries - i0);
                const ulong row = (b * p.heads + h) * p.queries + i0;
                for (int side = 0; side < 2; ++side) {
                    const heads_layout layout = side ? grad.y : p.q;
                    pack_rows((side ? grad_y + grad_y_offset : q + q_offset) + AT_HEAD(layout, b, h) + i0 * layout.row,
                              layout, rows, side ? p.value_size : p.size, side ? grad_rows : queries);
                }
                const long visible = min(in_block, visible_keys(&p, i0 + rows) - j0);
                for (long j = 0; j < visible; j += TILE_COLUMNS) {
                    const int wide = in_block - j > TILE_LANES;
                    __local REAL* score = scores + j / TILE_COLUMNS * panel_step;
                    __local REAL* gradient = gradients + j / TILE_COLUMNS * panel_step;
                    for (int side = 0; side < 2; ++side) {
                        const int size = (int)(side ? p.value_size : p.size);
                        score_panel(side ? grad_rows : queries, rows, (side ? values : keys) + j * size, size,
                                    side ? gradient : score, wide);
                    }
                    if (p.masked)
                        pack_mask(mask + mask_offset + AT_HEAD(p.mask, b, h) + i0 * p.mask.row +
                                      (j0 + j) * p.mask.column,
                                  p.mask.column, p.mask.row, in_block - j, rows, bias);
#ifdef DROPOUT
                    const ulong row_blocks = (p.keys + 3) / 4;
                    pack_factors(rows, row * row_blocks + (j0 + j) / 4, row_blocks, &dropout, factors);
#endif
                    for (int low = 0; low <= (wide ? TILE_LANES : 0); low += TILE_LANES)
                        for (int r = 0; r < rows; ++r) {
                            const int at = r * TILE_COLUMNS + low;
                            const tile_vector s =
                                finish_score(TILE_VLOAD(0, score + at), scale, p.masked ? bias + at : 0);
#ifdef DROPOUT
                            const __local REAL* factor = factors + at;
#else
                            const __local REAL* factor = 0;
#endif
                            turn_back(hide_from(s, visible_keys(&p, i0 + r + 1) - j0 - j - low),
                                      logsumexp[logsumexp_offset + row + r], delta[delta_offset + row + r], scale,
                                      factor, score + at, gradient + at);
                        }
                    for (int side = 0; side < 2; ++side)
                        add_rows(side ? grad_rows : queries, rows, side ? score : gradient,
                                 (int)(side ? p.value_size : p.size),
                                 side ? value_sums + j * value_size4 : key_sums + j * size4, 0, wide);
                }
                if (grad.want_q && visible > 0)
                    for (long e = 0; e < p.size; e += TILE_COLUMNS)
                        add_to_queries(gradients, panel_step, columns + e * width, visible, rows,
                                       sums + ((b * p.heads + h) * plan.sums_rows + i0) * plan.sums_columns + e,
                                       plan.sums_columns);
            }
        for (long j = 0; j < in_block; j += TILE_LANES) {
            const long panel = j / TILE_COLUMNS * TILE_COLUMNS;
            for (int side = 0; side < 2; ++side) {
                __global storage_t(X)* to = side ? grad_v : grad_k;
                const heads_layout layout = side ? grad.v : grad.k;
                if (to)
                    put_panel((side ? value_sums + panel * value_size4 : key_sums + panel * size4) + j - panel,
                              (tile_vector)1,
                              to + (side ? grad_v_offset : grad_k_offset) + AT_HEAD(layout, b, kv_h) +
                                  (j0 + j) * layout.row,
                              layout, in_block - j, side ? p.value_size : p.size);
            }
        }
    }
    if (grad.want_q)
        for (long h = kv_h * group; h < (kv_h + 1) * group; ++h)
            for (long i = 0; i < p.queries; ++i)
                for (long e = 0; e < p.size; e += TILE_LANES)
                    put_row(TILE_VLOAD(0, sums + ((b * p.heads + h) * plan.sums_rows + i) * plan.sums_columns + e),
                            grad_q + grad_q_offset + AT_HEAD(grad.q, b, h) + i * grad.q.row + e * grad.q.column,
                            grad.q.column, p.size - e);
}
