{
    OWNED_ROWS(j0, owned, block, KEY_COUNT, KEY_BLOCK)
    const int b = (int)(get_group_id(2) / KEY_HEADS), key_head = (int)(get_group_id(2) % KEY_HEADS);
    const __global X_TYPE* k_rows = FLEX_K + (b % KEY_BATCHES) * K_BATCH + key_head * K_HEAD + j0 * K_ROW;
    const __global X_TYPE* v_rows = FLEX_V + (b % KEY_BATCHES) * V_BATCH + key_head * V_HEAD + j0 * V_ROW;
    __local REAL keys[PANELS * SIZE * TILE_COLUMNS], values[PANELS * VALUE_SIZE * TILE_COLUMNS];
    __local REAL key_sums[PANELS * QUADS(SIZE) * TILE_COLUMNS], value_sums[PANELS * QUADS(VALUE_SIZE) * TILE_COLUMNS];
    __local REAL queries[OTHERS * STEP], outputs[OTHERS * STEP];
    __local REAL scores[OTHERS * TILE_COLUMNS], gradients[OTHERS * TILE_COLUMNS];
    for (long j = 0; j < owned; j += TILE_COLUMNS)
        for (int side = 0; side < 2; ++side) {   // of the products: one piece of code, since compilers inline it
            const long row = side ? V_ROW : K_ROW, column = side ? V_COLUMN : K_COLUMN;
            const int size = side ? VALUE_SIZE : SIZE;
            pack_panel((side ? v_rows : k_rows) + j * row, row, column, owned - j, size,
                       (side ? values : keys) + j * size);
        }
    clear(key_sums, PANELS * QUADS(SIZE) * TILE_COLUMNS);
    clear(value_sums, PANELS * QUADS(VALUE_SIZE) * TILE_COLUMNS);

    for (int h = key_head * GROUP; h < (key_head + 1) * GROUP; ++h) {
        const long pair = (long)b * HEADS + h;
        const __global X_TYPE* q_head = FLEX_Q + b * Q_BATCH + h * Q_HEAD;
        const __global X_TYPE* gradient_head = FLEX_DY + b * DY_BATCH + h * DY_HEAD;
        EACH_TILE(i0, b, h, block, QUERIES, QUERY_BLOCK) {
            const int count = (int)min((long)OTHERS, end - i0);
            for (int side = 0; side < 2; ++side) {
                const heads_layout layout = {0, 0, side ? DY_ROW : Q_ROW, side ? DY_COLUMN : Q_COLUMN};
                pack_rows((side ? gradient_head : q_head) + i0 * layout.row, layout, count, side ? VALUE_SIZE : SIZE,
                          side ? outputs : queries);
            }
            for (long j = 0; j < owned; j += TILE_COLUMNS) {
                const int lanes = (int)min((long)TILE_COLUMNS, owned - j), wide = lanes > TILE_LANES;
                for (int side = 0; side < 2; ++side) {
                    const int size = side ? VALUE_SIZE : SIZE;
                    score_panel(side ? outputs : queries, count, (side ? values : keys) + j * size, size,
                                side ? gradients : scores, wide);
                }
                for (int low = 0; low < lanes; low += TILE_LANES) {
                    INDEX_AHEAD(n, j0 + j + low, KEY_COUNT)
                    FLEX_AHEAD
                    for (int i = 0; i < count; ++i) {
                        const int m = (int)(i0 + i);
                        const REAL reference = REFERENCE_OF(FLEX_LSE[pair * QUERIES + m]);
                        const REAL common = (REAL)FLEX_DELTA[pair * QUERIES + m];
                        __local REAL* score_row = scores + i * TILE_COLUMNS + low;
                        __local REAL* gradient_row = gradients + i * TILE_COLUMNS + low;
                        EACH_SCORE {
                            INDEX_OF_SCORES(n, j0 + j + low, KEY_COUNT)
#define REFERENCE reference
#define COMMON common
                            FLEX_GRADIENT
                        }
                    }
                }
                for (int side = 0; side < 2; ++side)
                    add_rows(side ? outputs : queries, count, side ? scores : gradients, side ? VALUE_SIZE : SIZE,
                             side ? value_sums + j * QUADS(VALUE_SIZE) : key_sums + j * QUADS(SIZE), 0, wide);
            }
        }
    }
    for (long j = 0; j < owned; j += TILE_LANES) {
        const long panel = j / TILE_COLUMNS * TILE_COLUMNS;
        for (int side = 0; side < 2; ++side) {
            const heads_layout layout = {0, 0, side ? DV_ROW : DK_ROW, side ? DV_COLUMN : DK_COLUMN};
            __global X_TYPE* to = side ? FLEX_DV + b * DV_BATCH + key_head * DV_HEAD
                                       : FLEX_DK + b * DK_BATCH + key_head * DK_HEAD;
            put_panel((side ? value_sums + panel * QUADS(VALUE_SIZE) : key_sums + panel * QUADS(SIZE)) + j - panel,
                      (tile_vector)1, to + (j0 + j) * layout.row, layout, owned - j, side ? VALUE_SIZE : SIZE);
        }
    }
}
