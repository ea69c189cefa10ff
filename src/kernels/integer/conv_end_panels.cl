// What conv_cpu.cl tells dot_ending.cl.
#if KIND == REALS
#define SCALES (4 * COLUMNS)   // and offsets behind them
#else
#define SCALES (2 * COLUMNS)
#endif

// What both panels' columns from o on begin with and are scaled by; those that are not there have no numbers.
static inline void begin_panels(const conv_ending* e, const __global int* of_columns, int zero, long o, long count,
                                int* begin, float* scales)
{
    for (int j = 0; j < 2 * COLUMNS; ++j) {
        begin[j] = j < count ? AT(e->bias, e->p->bias, o + j) - of_columns[j] * zero : 0;
        scales[j] = j < count ? SCALE_OF(e, o + j) : 0;
#if KIND == REALS
        scales[2 * COLUMNS + j] = j < count ? AT(e->y_zero, e->p->y_zero, o + j) : 0;
#endif
    }
}

// The last `steps` eights of k of two panels, the first output channel of which is o of `outputs`: sums become results.
// `operands` has rows, their step, what sums begin with, weights and steps; its begin is 0 where that is none.
static inline void end_panels(const conv_ending* e, dot_ending operands, const __global int* of_columns, int zero,
                              long o, long outputs, long pixels, __global storage_t(Y)* y)
{
    int begin[2 * COLUMNS] __attribute__((aligned(64)));
    float scales[SCALES] __attribute__((aligned(64)));
    storage_t(Y) scratch[MOST_PIXELS * 2 * COLUMNS];
    begin_panels(e, of_columns, zero, o, outputs, begin, scales);
    if (!operands.begin) {
        operands.begin = (ulong)begin;
        operands.begin_second = operands.second ? 64 : 0;
    } else
        operands.three_begins = 3 * operands.begin_step;
    if (!operands.second)
        for (int j = COLUMNS; j < SCALES; ++j)
            scales[j] = j % (2 * COLUMNS) < COLUMNS ? scales[j] : scales[j - COLUMNS];
    const int y_zero = KIND == BYTES ? (int)AT(e->y_zero, e->p->y_zero, 0) : 0;
    operands.scales = (ulong)scales;
    operands.low = (float)((long)e->p->low - y_zero);
    operands.high = (float)((long)e->p->high - y_zero);
    operands.zero = y_zero;
    operands.three_rows = 3 * operands.row_step;
    const long columns = operands.second ? 2 * COLUMNS : COLUMNS, step = e->p->y_strides[4];
    operands.to_second = (columns - COLUMNS) * sizeof(storage_t(Y));
    if (outputs >= columns) {
        operands.to = (ulong)y;
        operands.to_step = step * sizeof(storage_t(Y));
        operands.three_tos = 3 * operands.to_step;
        end_tile(operands, pixels);
        return;
    }
    // Columns that are not there have no place in y.
    operands.to_step = 2 * COLUMNS * sizeof(storage_t(Y));
    operands.three_tos = 3 * operands.to_step;
    for (long done = 0; done < pixels; done += MOST_PIXELS) {
        const long here = min(pixels - done, (long)MOST_PIXELS);
        operands.to = (ulong)scratch;
        end_tile(operands, here);
        operands.rows += here * operands.row_step;
        operands.begin += here * operands.begin_step;
        for (long i = 0; i < here; ++i, y += step) {
            long j = 0;
            for (; j + 8 <= outputs; j += 8)
                vstore8(vload8(0, scratch + i * 2 * COLUMNS + j), 0, y + j);
            for (; j < outputs; ++j)
                y[j] = scratch[i * 2 * COLUMNS + j];
        }
    }
}
