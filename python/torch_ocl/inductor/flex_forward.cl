{
    const int x_item = get_local_id(0), y_item = get_local_id(1);
    const long i0 = (long)get_group_id(0) * BLOCK, pair = get_group_id(2);
    const int b = (int)(pair / HEADS), h = (int)(pair % HEADS);
    const long queries_left = QUERIES - i0;
    const __global X_TYPE* k_head = FLEX_K + (b % KEY_BATCHES) * K_BATCH + (h / GROUP) * K_HEAD;
    const __global X_TYPE* v_head = FLEX_V + (b % KEY_BATCHES) * V_BATCH + (h / GROUP) * V_HEAD;
    __local REAL queries[BLOCK * PITCH], others[BLOCK * PITCH], scores[BLOCK * SCORE_PITCH], shared[BLOCK * SIDE_X];
    REAL sums[ROWS][COLUMNS], best[ROWS], total[ROWS];
    EACH_ROW {
        best[r] = -INFINITY;
        total[r] = 0;
        EACH_COLUMN sums[r][c] = 0;
    }
    fetch_rows(FLEX_Q + b * Q_BATCH + h * Q_HEAD + i0 * Q_ROW, Q_ROW, Q_COLUMN, queries_left, SIZE, queries);
    EACH_TILE(j0, b, h, i0 / QUERY_BLOCK, KEY_COUNT, KEY_BLOCK) {
        SYNCHRONIZE;
        fetch_rows(k_head + j0 * K_ROW, K_ROW, K_COLUMN, KEY_COUNT - j0, SIZE, others);
        SYNCHRONIZE;
        REAL values[ROWS][KEYS];
        dot_tiles(queries, others, SIZE, values);
        EACH_ROW EACH_KEY {
            const int inside = j0 + KEY < end;
            FLEX_MODIFIED
            values[r][c] = seen ? modified : (REAL)-INFINITY;
        }
        EACH_ROW {
            REAL largest = best[r];
            EACH_KEY largest = values[r][c] > largest ? values[r][c] : largest;
            shared[ROW * SIDE_X + x_item] = largest;
        }
        SYNCHRONIZE;
        fetch_rows(v_head + j0 * V_ROW, V_ROW, V_COLUMN, KEY_COUNT - j0, VALUE_SIZE, others);
        EACH_ROW {
            REAL largest = best[r];
            for (int x = 0; x < SIDE_X; ++x)
                largest = shared[ROW * SIDE_X + x] > largest ? shared[ROW * SIDE_X + x] : largest;
            const REAL reference = largest == (REAL)-INFINITY ? (REAL)0 : largest;
            const REAL again = exp(best[r] - reference);
            best[r] = largest;
            total[r] *= again;
            EACH_COLUMN sums[r][c] *= again;
            EACH_KEY {
                const REAL probability = exp(values[r][c] - reference);
                total[r] += probability;
                scores[ROW * SCORE_PITCH + KEY] = probability;
            }
        }
        SYNCHRONIZE;
        add_tiles(scores, SCORE_PITCH, 1, others, sums);
    }
    SYNCHRONIZE;
    EACH_ROW shared[ROW * SIDE_X + x_item] = total[r];
    SYNCHRONIZE;
    EACH_ROW {
        REAL sum = 0;
        for (int x = 0; x < SIDE_X; ++x)
            sum += shared[ROW * SIDE_X + x];
        const REAL inverse = sum == 0 ? (REAL)0 : 1 / sum;
        EACH_COLUMN sums[r][c] *= inverse;
        if (x_item == 0 && ROW < queries_left) {
            FLEX_LSE[pair * QUERIES + i0 + ROW] = (float)((best[r] + log(sum)) * LOG2E);
            FLEX_MAX[pair * QUERIES + i0 + ROW] = (float)(best[r] * LOG2E);
        }
    }
    put_rows(sums, 1, FLEX_OUT + b * OUT_BATCH + h * OUT_HEAD + i0 * OUT_ROW, OUT_ROW, OUT_COLUMN, queries_left,
             VALUE_SIZE);
}
