// Gradients of queries on CPU devices where cpu_backward_keys.cl leaves them: a work-item passes over the keys as in
// cpu.cl, one query a lane. Options: those of cpu.cl.
#include "kernels/attention/tiles.cl"

__kernel TILE_TASK
void backward_queries(BACKWARD_INPUTS, OUTPUT(grad_q), forward_plan plan, BACKWARD_SCALARS, __local REAL* memory)
{
    const long block = plan.blocks - 1 - (long)get_group_id(0) % plan.blocks,
               pair = (long)get_group_id(0) / plan.blocks;
    const long b = pair / p.heads, h = pair % p.heads, kv_h = h / (p.heads / p.kv_heads);
    const long i0 = block * plan.rows, rows = min(plan.rows, p.queries - i0), size4 = (p.size + 3) / 4 * 4;
    const long panels = (rows + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const ulong row = (b * p.heads + h) * p.queries + i0;
    q += q_offset + AT_HEAD(p.q, b, h) + i0 * p.q.row;
    grad_y += grad_y_offset + AT_HEAD(grad.y, b, h) + i0 * grad.y.row;
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h);

    __local REAL* scores = memory;                                      // keys x TILE_COLUMNS
    __local REAL* gradients = scores + plan.keys * TILE_COLUMNS;        // the same
    __local REAL* bias = gradients + plan.keys * TILE_COLUMNS;          // the same, where there is a mask
    __local REAL* keys = bias + (p.masked ? plan.keys * TILE_COLUMNS : 0);
    __local REAL* values = keys + plan.keys * STEP;
    __local REAL* queries = values + plan.keys * STEP;                  // panels x size x TILE_COLUMNS
    __local REAL* grad_rows = queries + panels * p.size * TILE_COLUMNS; // panels x value_size x TILE_COLUMNS
    __local REAL* sums = grad_rows + panels * p.value_size * TILE_COLUMNS;   // panels x size4 x TILE_COLUMNS

    for (long i = 0; i < rows; i += TILE_COLUMNS) {
        for (int side = 0; side < 2; ++side) {   // of the products: one piece of code, since compilers inline it
            const heads_layout* layout = side ? &grad.y : &p.q;
            const long size = side ? p.value_size : p.size;
            pack_panel((side ? grad_y : q) + i * layout->row, layout->row, layout->column, rows - i, size,
                       (side ? grad_rows : queries) + i * size);
        }
    }
    clear(sums, panels * size4 * TILE_COLUMNS);
    const long visible = visible_keys(&p, i0 + rows);
    for (long j0 = 0; j0 < visible; j0 += plan.keys) {
        const long in_block = min(plan.keys, visible - j0);
        for (int side = 0; side < 2; ++side) {
            const heads_layout layout = side ? p.v : p.k;
            pack_rows((side ? v : k) + j0 * layout.row, layout, in_block, side ? p.value_size : p.size,
                      side ? values : keys);
        }
        for (long i = 0; i < rows; i += TILE_COLUMNS) {
            const long lanes = min((long)TILE_COLUMNS, rows - i);
            const int count = (int)min(in_block, visible_keys(&p, i0 + i + lanes) - j0), wide = lanes > TILE_LANES;
            if (count <= 0)
                continue;
            for (int side = 0; side < 2; ++side) {
                const int size = (int)(side ? p.value_size : p.size);
                score_panel(side ? values : keys, count, (side ? grad_rows : queries) + i * size, size,
                            side ? gradients : scores, wide);
            }
            if (p.masked)
                pack_mask(mask + mask_offset + AT_HEAD(p.mask, b, h) + (i0 + i) * p.mask.row + j0 * p.mask.column,
                          p.mask.row, p.mask.column, lanes, count, bias);
            for (int low = 0; low < lanes; low += TILE_LANES) {
                const long first = i + low, left = rows - first;
#ifdef DROPOUT
                const ulong row_blocks = (p.keys + 3) / 4;
                multiply_factors(gradients + low, count, (row + first) * row_blocks + j0 / 4, row_blocks, &dropout);
#endif
                const tile_vector sum = get_sums(logsumexp + logsumexp_offset + row + first, left);
                const tile_vector reference = sum == HIDDEN ? -HIDDEN : sum;
                const tile_vector common = get_sums(delta + delta_offset + row + first, left);
                for (int j = 0; j < count; ++j) {
                    const int at = j * TILE_COLUMNS + low;
                    const tile_vector s = finish_score(TILE_VLOAD(0, scores + at), scale, p.masked ? bias + at : 0);
                    const tile_vector e =
                        exp_lanes(hide_first(s, j0 + j + 1 - first_hidden(&p, i0 + first)) - reference);
                    TILE_VSTORE(e * (TILE_VLOAD(0, gradients + at) - common) * scale, 0, gradients + at);
                }
            }
            add_rows(keys, count, gradients, (int)p.size, sums + i * size4, 0, wide);
        }
    }
    for (long i = 0; i < rows; i += TILE_LANES) {
        const long panel = i / TILE_COLUMNS * TILE_COLUMNS;
        put_panel(sums + panel * size4 + i - panel, (tile_vector)1,
                  grad_q + grad_q_offset + AT_HEAD(grad.q, b, h) + (i0 + i) * grad.q.row, grad.q, rows - i, p.size);
    }
}
