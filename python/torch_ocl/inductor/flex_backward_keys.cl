{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    const long j0 = (long)get_group_id(0) * BLOCK;
    const int b = (int)(get_group_id(2) / KEY_HEADS), key_head = (int)(get_group_id(2) % KEY_HEADS);
    const __global X_TYPE* k_head = FLEX_K + (b % KEY_BATCHES) * K_BATCH + key_head * K_HEAD;
    const __global X_TYPE* v_head = FLEX_V + (b % KEY_BATCHES) * V_BATCH + key_head * V_HEAD;
    __local REAL queries[BLOCK * PITCH], gradients[BLOCK * PITCH], keys[BLOCK * PITCH], key_values[BLOCK * PITCH];
    __local REAL score_gradients[BLOCK * SCORE_PITCH], probabilities[BLOCK * SCORE_PITCH];
    REAL key_sums[ROWS][COLUMNS], value_sums[ROWS][COLUMNS];
    EACH_ROW EACH_COLUMN key_sums[r][c] = value_sums[r][c] = 0;
    fetch_rows(k_head + j0 * K_ROW, K_ROW, K_COLUMN, KEY_COUNT - j0, SIZE, keys);
    fetch_rows(v_head + j0 * V_ROW, V_ROW, V_COLUMN, KEY_COUNT - j0, VALUE_SIZE, key_values);
    for (int h = key_head * GROUP; h < (key_head + 1) * GROUP; ++h) {
        const long pair = (long)b * HEADS + h;
        const __global X_TYPE* q_head = FLEX_Q + b * Q_BATCH + h * Q_HEAD;
        const __global X_TYPE* gradient_head = FLEX_DY + b * DY_BATCH + h * DY_HEAD;
        EACH_TILE(i0, b, h, j0 / KEY_BLOCK, QUERIES, QUERY_BLOCK) {
            SYNCHRONIZE;
            fetch_rows(q_head + i0 * Q_ROW, Q_ROW, Q_COLUMN, QUERIES - i0, SIZE, queries);
            fetch_rows(gradient_head + i0 * DY_ROW, DY_ROW, DY_COLUMN, QUERIES - i0, VALUE_SIZE, gradients);
            SYNCHRONIZE;
            REAL values[ROWS][KEYS], products[ROWS][KEYS];
            dot_tiles(queries, keys, SIZE, values);
            dot_tiles(gradients, key_values, VALUE_SIZE, products);
            EACH_ROW EACH_KEY {
                const int inside = i0 + ROW < end && j0 + KEY < KEY_COUNT;
                FLEX_GRADIENT
                score_gradients[ROW * SCORE_PITCH + KEY] = seen ? score_gradient : (REAL)0;
                probabilities[ROW * SCORE_PITCH + KEY] = probability;
            }
            SYNCHRONIZE;
            add_tiles(score_gradients, 1, SCORE_PITCH, queries, key_sums);
            add_tiles(probabilities, 1, SCORE_PITCH, gradients, value_sums);
        }
    }
    put_rows(key_sums, SCALE, FLEX_DK + b * DK_BATCH + key_head * DK_HEAD + j0 * DK_ROW, DK_ROW, DK_COLUMN,
             KEY_COUNT - j0, SIZE);
    put_rows(value_sums, 1, FLEX_DV + b * DV_BATCH + key_head * DV_HEAD + j0 * DV_ROW, DV_ROW, DV_COLUMN,
             KEY_COUNT - j0, VALUE_SIZE);
}
