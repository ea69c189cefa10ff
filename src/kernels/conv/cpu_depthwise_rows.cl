// Depthwise convolution on a CPU device, planar layout, one output per channel, every or every second column of the
// source: rows of positions by vectors straight from the source, which is masked only where a vector crosses a border.
//
// A work-item owns PLANES channels of one image.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/depthwise_problem.cl"

#define PLANES 8
#define MAX_TAPS 128

// Sum of a row's taps at `from`, a vector for the first one; MASKED(tap, v): what counts of it.
#define DEFINE_ADD_TAPS(name, MASKED)                                                                       \
    static inline vec name(vec sum, const __global stored* from, const real* weights, int taps, int step, int scale, \
                           const mask_vec* masks)                                                           \
    {                                                                                                       \
        int t = 0;                                                                                          \
        if (scale == 1) {                                                                                   \
            for (; t < taps; ++t)                                                                           \
                sum = fma((vec)weights[t], MASKED(t, load_lanes(from + t * step)), sum);                    \
            return sum;                                                                                     \
        }                                                                                                   \
        for (; step == 1 && t + 1 < taps; t += 2) {                                                         \
            const vec a = load_lanes(from + t), b = load_lanes(from + t + LANES);                           \
            sum = fma((vec)weights[t], MASKED(t, (vec)(a.even, b.even)), sum);                              \
            sum = fma((vec)weights[t + 1], MASKED(t + 1, (vec)(a.odd, b.odd)), sum);                        \
        }                                                                                                   \
        for (; t < taps; ++t) {                                                                             \
            const vec a = load_lanes(from + t * step), b = load_lanes(from + t * step + LANES);             \
            sum = fma((vec)weights[t], MASKED(t, (vec)(a.even, b.even)), sum);                              \
        }                                                                                                   \
        return sum;                                                                                         \
    }
#define ALL(t, v) (v)
#define WHERE_MASK(t, v) select((vec)0, v, masks[t])
DEFINE_ADD_TAPS(add_taps, ALL)
DEFINE_ADD_TAPS(add_masked_taps, WHERE_MASK)

// LANES columns from `column` of the row at `row` one by one, zeros outside of it.
static inline vec column_by_column(const __global stored* source, long row, int column, int scale, int width)
{
    real values[LANES];
    for (int i = 0, x = column; i < LANES; ++i, x += scale)
        values[i] = x >= 0 && x < width ? load(T, source, row + x) : 0;
    return get_vec(0, values);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_rows(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                         const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                         depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], taps = p.taps[0] * p.taps[1], taps_x = p.taps[1], scale = p.scale[1];
    const int blocks = (p.groups + PLANES - 1) / PLANES, step_x = p.step[1];
    const int first = get_group_id(0) % blocks * PLANES, count = min(PLANES, (int)p.groups - first);
    const long n = get_group_id(0) / blocks;
    const int in_height = p.in[0], in_width = p.in[1], taps_y = p.taps[0];
    const int scale_y = p.scale[0], shift_y = p.shift[0], step_y = p.step[0];
    const int dense = p.result_strides[2] == width;
    // Of the columns that a vector reads, relative to its first tap; masks of the first and the last vector of a row.
    const int shift_x = p.shift[1], low = min(0, (taps_x - 1) * step_x),
              end = max(0, (taps_x - 1) * step_x) + LANES * scale;
    const int last_x = max(width - LANES, 0);
    mask_vec masks[2][MAX_TAPS];
    for (int side = 0; side < 2; ++side)
        for (int tx = 0; tx < taps_x; ++tx) {
            const mask_vec columns = (side ? last_x : 0) * scale + shift_x + tx * step_x + lane_index * scale;
            masks[side][tx] = columns >= 0 && columns < in_width;
        }
    source += source_offset;
    w += w_offset;
    result += result_offset + n * p.result_strides[0];
    int places[MAX_TAPS];   // of the weights
    for (int t = 0; t < taps; ++t)
        places[t] = (p.tap_first[0] + t / taps_x * p.tap_period[0]) * p.w_strides[2] +
                    (p.tap_first[1] + t % taps_x * p.tap_period[1]) * p.w_strides[3];
    for (int channel = first; channel < first + count; ++channel) {
        const long plane = n * p.source_strides[0] + channel * p.source_strides[1];
        const real b = p.finish.has_bias ? load(T, bias, bias_offset + channel) : 0;
        real weights[MAX_TAPS];
        for (int t = 0; t < taps; ++t)
            weights[t] = load(T, w, channel * p.w_strides[0] + places[t]);
        for (int row = 0; row < height; ++row)
            for (int done = 0; done < width; done += LANES) {
                const int x = width >= LANES ? min(done, width - LANES) : 0;  // the last vector overlaps the one before
                const int column = x * scale + shift_x, side = done > 0;
                const int inside = column + low >= 0 && column + end <= in_width;
                const int masked = done == 0 || x == last_x;
                vec sum = b;
                for (int ty = 0; ty < taps_y; ++ty) {
                    const int y = row * scale_y + shift_y + ty * step_y;
                    if (y < 0 || y >= in_height)
                        continue;
                    const long line = plane + y * p.source_strides[2] + column;
                    const real* line_weights = weights + ty * taps_x;
                    if (inside)
                        sum = add_taps(sum, source + line, line_weights, taps_x, step_x, scale, 0);
                    else if (masked && line + low >= 0 && line + end <= p.source_size)
                        sum = add_masked_taps(sum, source + line, line_weights, taps_x, step_x, scale, masks[side]);
                    else
                        for (int tx = 0; tx < taps_x; ++tx)
                            sum = fma((vec)line_weights[tx],
                                      column_by_column(source, line - column, column + tx * step_x, scale, in_width),
                                      sum);
                }
                const vec v = activate_lanes(sum, &p.finish);
                __global stored* to = result + channel * p.result_strides[1] + row * p.result_strides[2] + x;
                // What a short row writes too much the next row overwrites.
                if (width >= LANES || (dense && row * width + LANES <= height * width)) {
                    store_lanes(to, v);
                } else {
                    real values[LANES];
                    put_vec(v, 0, values);
                    for (int i = 0; i < width; ++i)
                        store(T, to, i, values[i]);
                }
            }
    }
}
