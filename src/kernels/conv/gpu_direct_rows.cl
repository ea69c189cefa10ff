// Depthwise convolution with large or long kernels on a GPU, forward and data gradient, without strides: as
// gpu_direct.cl, but a work-item's LINES rows of the result share each row of the source that it reads, one after the
// other, and TAPS taps of it at a time. Options: those of gpu_direct_common.cl (-DQUADS=0 -DSCALE=1 -DTAPS_Y=0; APART
// is STEP where there are several lines), -DACTIVATION, -DUNIFORM as in gpu_direct.cl, and
//   -DLAST=n     taps of a row in the last piece; all pieces before it have TAPS
#include "kernels/conv/gpu_direct_common.cl"
#include "kernels/conv/gpu_direct_finish.cl"

// What a work-item reads: of the source from its image and channel on, of weights from its channel on.
typedef struct {
    const __global stored *source, *w;
    OFFSET from, w_at, line_step;
    int first, taps_x, taps_y;   // row of the source at row 0; taps
} row_task;

// Row r of the source times `count` taps from tx on: of line j those in row r - j of the kernel. With `edge` some lines
// have none.
static inline __attribute__((always_inline))
void add_row(real sums[LINES][PIXELS], const gpu_conv_problem* p, row_task t, const row_places* row, int r, int tx,
             int count, int edge)
{
    const int iy = t.first + r * STEP;
    if ((uint)iy >= (uint)p->in[1])
        return;
    real values[VALUES];
    read_row(values, t.source, t.from + iy * t.line_step, row, 1);
    UNROLL for (int j = 0; j < LINES; ++j) {
        if (edge && (uint)(r - j) >= (uint)t.taps_y)
            continue;
        const int tap_y = FLIP ? t.taps_y - 1 - (r - j) : r - j;
        const int tap = tap_y * t.taps_x + (FLIP ? t.taps_x - count - tx : tx);   // its first one in memory
        const __global stored* weights = AT(t.w, t.w_at + (OFFSET)tap * SIZE);
        UNROLL for (int i = 0; i < count; ++i) {
            const real weight = load(T, weights, FLIP ? count - 1 - i : i);
            UNROLL for (int e = 0; e < PIXELS; ++e)
                sums[j][e] = fma(values[e + i * STEP], weight, sums[j][e]);
        }
    }
}

// All rows, of which those in the middle meet all lines.
static inline __attribute__((always_inline))
void add_rows(real sums[LINES][PIXELS], const gpu_conv_problem* p, row_task t, int x, int tx, int count)
{
    const row_places row = find_row_places(p, x, tx);
#if LINES > 1
    const int whole = max(t.taps_y, LINES - 1), edges = t.taps_y + 2 * (LINES - 1) - whole;
#pragma unroll 1
    for (int e = 0; e < edges; ++e)
        add_row(sums, p, t, &row, e < LINES - 1 ? e : e - (LINES - 1) + whole, tx, count, 1);
#endif
#pragma unroll 1
    for (int r = LINES - 1; r < t.taps_y; ++r)
        add_row(sums, p, t, &row, r, tx, count, 0);
}

// w: [channel][tap].
__kernel DIRECT_GROUP
void conv_direct_rows(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                      const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                      gpu_direct_problem all)
{
    const gpu_conv_problem* p = &all.conv;
#if UNIFORM
    int outer = get_group_id(0);
    int rest = take(&all, &outer, COUNT_INNER) * ITEMS + get_local_id(0);
    if (rest >= all.items)
        return;
    const int channel = take(&all, &outer, COUNT_C), n = outer;
    const int x = take(&all, &rest, COUNT_X) * PIXELS, lines = rest;
#else
    int rest = get_global_id(0);
    if (rest >= all.items)
        return;
#if CHANNELS_LAST
    const int channel = take(&all, &rest, COUNT_C);
#endif
    const int x = take(&all, &rest, COUNT_X) * PIXELS, lines = take(&all, &rest, COUNT_Y);
#if !CHANNELS_LAST
    const int channel = take(&all, &rest, COUNT_C);
#endif
    const int n = rest;
#endif
    const int y = APART == 1 ? lines * LINES : lines / 2 * (2 * LINES) + lines % 2;
    row_task task = {source, w, 0, 0, p->source_axis[1] * SIZE, 0, p->taps[2], p->taps[1]};
    task.from = (OFFSET)(source_offset + n * p->source_image + channel * p->source_group) * SIZE;
    task.w_at = ((OFFSET)w_offset + channel * (OFFSET)(task.taps_x * task.taps_y)) * SIZE;
    task.first = y + p->shift[1] - (FLIP ? (task.taps_y - 1) * STEP : 0);

    real sums[LINES][PIXELS];
    UNROLL for (int j = 0; j < LINES; ++j)
        UNROLL for (int e = 0; e < PIXELS; ++e) sums[j][e] = 0;
    int tx = 0;
#if MORE
#pragma unroll 1
    for (; tx < task.taps_x - LAST; tx += TAPS)
        add_rows(sums, p, task, x, tx, TAPS);
#endif
    add_rows(sums, p, task, x, tx, LAST);

    const real added = p->has_bias ? load(T, bias + bias_offset, channel) : (real)0;
    result += result_offset + n * p->result_image + channel * (long)p->result_group + y * p->result_axis[1] +
              x * p->result_axis[2];
    UNROLL for (int j = 0; j < LINES; ++j) {
        if (y + j * APART >= p->out[1])
            continue;
        __global stored* line = result + j * APART * p->result_axis[1];
#if RESULT_QUADS
        real values[4];
        UNROLL for (int e = 0; e < PIXELS; ++e) values[e] = finish(sums[j][e], added, line + e, p);
        store_quad(T, line, ((real4)(values[0], values[1], values[2], values[3])));
#else
        UNROLL for (int e = 0; e < PIXELS; ++e)
            if (x + e < p->out[2]) {   // leaving the loop instead would keep some compilers from unrolling it
                __global stored* to = line + e * p->result_axis[2];
                store(T, to, 0, finish(sums[j][e], added, to, p));
            }
#endif
    }
}
