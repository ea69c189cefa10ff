{
    OWNED_ROWS(i0, rows, block, QUERIES, QUERY_BLOCK)
    const long pair = get_group_id(2);
    const int b = (int)(pair / HEADS), h = (int)(pair % HEADS);
    const __global X_TYPE* k_head = FLEX_K + (b % KEY_BATCHES) * K_BATCH + (h / GROUP) * K_HEAD;
    const __global X_TYPE* v_head = FLEX_V + (b % KEY_BATCHES) * V_BATCH + (h / GROUP) * V_HEAD;
    const __global X_TYPE* q_rows = FLEX_Q + b * Q_BATCH + h * Q_HEAD + i0 * Q_ROW;
    __local REAL scores[OTHERS * TILE_COLUMNS], keys[OTHERS * STEP], values[OTHERS * STEP];
    __local REAL queries[PANELS * SIZE * TILE_COLUMNS], sums[PANELS * QUADS(VALUE_SIZE) * TILE_COLUMNS];
    __local REAL best[PANELS * TILE_COLUMNS], total[PANELS * TILE_COLUMNS], correction[TILE_COLUMNS];
    for (long i = 0; i < rows; i += TILE_COLUMNS)
        pack_panel(q_rows + i * Q_ROW, Q_ROW, Q_COLUMN, rows - i, SIZE, queries + i * SIZE);
    for (long i = 0; i < PANELS * TILE_COLUMNS; i += TILE_LANES) {
        TILE_VSTORE(HIDDEN, 0, best + i);
        TILE_VSTORE((tile_vector)0, 0, total + i);
    }
    clear(sums, PANELS * QUADS(VALUE_SIZE) * TILE_COLUMNS);

    EACH_TILE(j0, b, h, block, KEY_COUNT, KEY_BLOCK) {
        const int count = (int)min((long)OTHERS, end - j0);
        for (int side = 0; side < 2; ++side) {   // one piece of code, since compilers inline it
            const heads_layout layout = {0, 0, side ? V_ROW : K_ROW, side ? V_COLUMN : K_COLUMN};
            pack_rows((side ? v_head : k_head) + j0 * layout.row, layout, count, side ? VALUE_SIZE : SIZE,
                      side ? values : keys);
        }
        for (long i = 0; i < rows; i += TILE_COLUMNS) {
            const int lanes = (int)min((long)TILE_COLUMNS, rows - i), wide = lanes > TILE_LANES;
            score_panel(keys, count, queries + i * SIZE, SIZE, scores, wide);
            for (int low = 0; low < lanes; low += TILE_LANES) {
                tile_vector largest = TILE_VLOAD(0, best + i + low);
                const tile_vector before = largest;
                INDEX_AHEAD(m, i0 + i + low, QUERIES)
                FLEX_AHEAD
                for (int j = 0; j < count; ++j) {
                    const int n = (int)(j0 + j);
                    __local REAL* score_row = scores + j * TILE_COLUMNS + low;
                    EACH_SCORE {
                        INDEX_OF_SCORES(m, i0 + i + low, QUERIES)
                        FLEX_MODIFIED
                        PUT_SCORES(modified, score_row);
                    }
                    const tile_vector s = TILE_VLOAD(0, score_row);
                    largest = s > largest ? s : largest;
                }
                const tile_vector reference = finite_best(largest), again = exp_lanes(before - reference);
                tile_vector sum = TILE_VLOAD(0, total + i + low) * again;
                for (int j = 0; j < count; ++j) {
                    const tile_vector e = exp_lanes(TILE_VLOAD(0, scores + j * TILE_COLUMNS + low) - reference);
                    sum += e;
                    TILE_VSTORE(e, 0, scores + j * TILE_COLUMNS + low);
                }
                TILE_VSTORE(largest, 0, best + i + low);
                TILE_VSTORE(sum, 0, total + i + low);
                TILE_VSTORE(again, 0, correction + low);
            }
            add_rows(values, count, scores, VALUE_SIZE, sums + i * QUADS(VALUE_SIZE), correction, wide);
        }
    }

    const heads_layout out = {OUT_BATCH, OUT_HEAD, OUT_ROW, OUT_COLUMN};
    for (long i = 0; i < rows; i += TILE_LANES)
        put_panel(sums + i / TILE_COLUMNS * TILE_COLUMNS * QUADS(VALUE_SIZE) + i % TILE_COLUMNS,
                  TILE_VLOAD(0, total + i), FLEX_OUT + b * OUT_BATCH + h * OUT_HEAD + (i0 + i) * OUT_ROW, out, rows - i,
                  VALUE_SIZE);
    for (long i = 0; i < rows; ++i) {
        FLEX_LSE[pair * QUERIES + i0 + i] = (float)((best[i] + log(total[i])) * LOG2_E);
        FLEX_MAX[pair * QUERIES + i0 + i] = (float)(best[i] * LOG2_E);
    }
}
