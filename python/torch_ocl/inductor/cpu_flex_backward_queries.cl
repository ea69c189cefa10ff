{
    OWNED_ROWS(i0, rows, block, QUERIES, QUERY_BLOCK)
    const long pair = get_group_id(2);
    const int b = (int)(pair / HEADS), h = (int)(pair % HEADS);
    const __global X_TYPE* k_head = FLEX_K + (b % KEY_BATCHES) * K_BATCH + (h / GROUP) * K_HEAD;
    const __global X_TYPE* v_head = FLEX_V + (b % KEY_BATCHES) * V_BATCH + (h / GROUP) * V_HEAD;
    const __global X_TYPE* q_rows = FLEX_Q + b * Q_BATCH + h * Q_HEAD + i0 * Q_ROW;
    const __global X_TYPE* gradient_rows = FLEX_DY + b * DY_BATCH + h * DY_HEAD + i0 * DY_ROW;
    __local REAL scores[OTHERS * TILE_COLUMNS], gradients[OTHERS * TILE_COLUMNS];
    __local REAL keys[OTHERS * STEP], values[OTHERS * STEP];
    __local REAL queries[PANELS * SIZE * TILE_COLUMNS], outputs[PANELS * VALUE_SIZE * TILE_COLUMNS];
    __local REAL sums[PANELS * QUADS(SIZE) * TILE_COLUMNS];
    __local REAL references[PANELS * TILE_COLUMNS], common[PANELS * TILE_COLUMNS];
    for (long i = 0; i < rows; i += TILE_COLUMNS)
        for (int side = 0; side < 2; ++side) {   // of the products: one piece of code, since compilers inline it
            const long row = side ? DY_ROW : Q_ROW, column = side ? DY_COLUMN : Q_COLUMN;
            const int size = side ? VALUE_SIZE : SIZE;
            pack_panel((side ? gradient_rows : q_rows) + i * row, row, column, rows - i, size,
                       (side ? outputs : queries) + i * size);
        }
    for (long i = 0; i < PANELS * TILE_COLUMNS; ++i) {
        const long from = pair * QUERIES + i0 + min(i, rows - 1);
        references[i] = REFERENCE_OF(FLEX_LSE[from]);
        common[i] = (REAL)FLEX_DELTA[from];
    }
    clear(sums, PANELS * QUADS(SIZE) * TILE_COLUMNS);

    EACH_TILE(j0, b, h, block, KEY_COUNT, KEY_BLOCK) {
        const int count = (int)min((long)OTHERS, end - j0);
        for (int side = 0; side < 2; ++side) {
            const heads_layout layout = {0, 0, side ? V_ROW : K_ROW, side ? V_COLUMN : K_COLUMN};
            pack_rows((side ? v_head : k_head) + j0 * layout.row, layout, count, side ? VALUE_SIZE : SIZE,
                      side ? values : keys);
        }
        for (long i = 0; i < rows; i += TILE_COLUMNS) {
            const int lanes = (int)min((long)TILE_COLUMNS, rows - i), wide = lanes > TILE_LANES;
            for (int side = 0; side < 2; ++side) {
                const int size = side ? VALUE_SIZE : SIZE;
                score_panel(side ? values : keys, count, (side ? outputs : queries) + i * size, size,
                            side ? gradients : scores, wide);
            }
            for (int low = 0; low < lanes; low += TILE_LANES) {
                INDEX_AHEAD(m, i0 + i + low, QUERIES)
                FLEX_AHEAD
                for (int j = 0; j < count; ++j) {
                    const int n = (int)(j0 + j);
                    __local REAL* score_row = scores + j * TILE_COLUMNS + low;
                    __local REAL* gradient_row = gradients + j * TILE_COLUMNS + low;
                    EACH_SCORE {
                        INDEX_OF_SCORES(m, i0 + i + low, QUERIES)
#define REFERENCE GET_SCORES(references + i + low)
#define COMMON GET_SCORES(common + i + low)
                        FLEX_GRADIENT
                    }
                }
            }
            add_rows(keys, count, gradients, SIZE, sums + i * QUADS(SIZE), 0, wide);
        }
    }
    const heads_layout layout = {DQ_BATCH, DQ_HEAD, DQ_ROW, DQ_COLUMN};
    for (long i = 0; i < rows; i += TILE_LANES)
        put_panel(sums + i / TILE_COLUMNS * TILE_COLUMNS * QUADS(SIZE) + i % TILE_COLUMNS, (tile_vector)1,
                  FLEX_DQ + b * DQ_BATCH + h * DQ_HEAD + (i0 + i) * DQ_ROW, layout, rows - i, SIZE);
}
