{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    const long i0 = (long)get_group_id(0) * BLOCK, pair = get_group_id(2);
    const int b = (int)(pair / HEADS), h = (int)(pair % HEADS);
    const __global X_TYPE* k_head = FLEX_K + (b % KEY_BATCHES) * K_BATCH + (h / GROUP) * K_HEAD;
    const __global X_TYPE* v_head = FLEX_V + (b % KEY_BATCHES) * V_BATCH + (h / GROUP) * V_HEAD;
    __local REAL queries[BLOCK * PITCH], gradients[BLOCK * PITCH], keys[BLOCK * PITCH], key_values[BLOCK * PITCH];
    __local REAL score_gradients[BLOCK * SCORE_PITCH];
    REAL sums[ROWS][COLUMNS];
    EACH_ROW EACH_COLUMN sums[r][c] = 0;
    fetch_rows(FLEX_Q + b * Q_BATCH + h * Q_HEAD + i0 * Q_ROW, Q_ROW, Q_COLUMN, QUERIES - i0, SIZE, queries);
    fetch_rows(FLEX_DY + b * DY_BATCH + h * DY_HEAD + i0 * DY_ROW, DY_ROW, DY_COLUMN, QUERIES - i0, VALUE_SIZE,
               gradients);
    EACH_TILE(j0, b, h, i0 / QUERY_BLOCK, KEY_COUNT, KEY_BLOCK) {
        SYNCHRONIZE;
        fetch_rows(k_head + j0 * K_ROW, K_ROW, K_COLUMN, KEY_COUNT - j0, SIZE, keys);
        fetch_rows(v_head + j0 * V_ROW, V_ROW, V_COLUMN, KEY_COUNT - j0, VALUE_SIZE, key_values);
        SYNCHRONIZE;
        REAL values[ROWS][KEYS], products[ROWS][KEYS];
        dot_tiles(queries, keys, SIZE, values);
        dot_tiles(gradients, key_values, VALUE_SIZE, products);
        EACH_ROW EACH_KEY {
            const int inside = i0 + ROW < QUERIES && j0 + KEY < end;
            FLEX_GRADIENT
            score_gradients[ROW * SCORE_PITCH + KEY] = seen ? score_gradient : (REAL)0;
        }
        SYNCHRONIZE;
        add_tiles(score_gradients, SCORE_PITCH, 1, keys, sums);
    }
    put_rows(sums, SCALE, FLEX_DQ + b * DQ_BATCH + h * DQ_HEAD + i0 * DQ_ROW, DQ_ROW, DQ_COLUMN, QUERIES - i0, SIZE);
}
