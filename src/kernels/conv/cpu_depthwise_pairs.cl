// Data gradient of a depthwise convolution with stride 2 on a CPU device, planar layout, 3x3, 5x5 or 7x7 neighbouring
// taps (-DTAPS).
//
// The result is taken in pairs of rows and of columns, which see every second tap of the same numbers of the source: a
// vector of these is loaded once for both of a pair and for all rows of a block. -DODD: the padding is odd, so that a
// pair's second one has the first tap. A work-item owns `each` planes, whose source is copied into a field as in
// cpu_depthwise_field.cl.
#include "kernels/conv/depthwise_field.cl"

#define ROWS 4                  // pairs of rows of a block
#define HALF ((TAPS + 1) / 2)   // numbers of the source that a pair sees along an axis
// The tap by which the first or second (`which`) of a pair sees the number `back` behind the nearest, if there is one.
#define TAP(back, which) (2 * (back) - ODD + (which))
#define IS_TAP(back, which) (TAP(back, which) >= 0 && TAP(back, which) < TAPS)

// sums[pair of rows][row][column] of LANES pairs of columns, from the field's last one of the nearest numbers.
static inline void add_pairs(vec (*sums)[2][2], const __local real* from, int pitch, const real* weights)
{
    UNROLLED for (int i = 0; i < ROWS + HALF - 1; ++i)
    {
        UNROLLED for (int left = 0; left < HALF; ++left)
        {
            const vec v = get_vec(0, from + i * pitch + HALF - 1 - left);
            UNROLLED for (int k = 0; k < ROWS; ++k)
            {
                const int up = k + HALF - 1 - i;
                if (up < 0 || up >= HALF)
                    continue;
                UNROLLED for (int which = 0; which < 4; ++which)
                {
                    if (IS_TAP(up, which / 2) && IS_TAP(left, which % 2)) {
                        vec* sum = &sums[k][which / 2][which % 2];
                        *sum = fma((vec)weights[TAP(up, which / 2) * TAPS + TAP(left, which % 2)], v, *sum);
                    }
                }
            }
        }
    }
}

// A row's LANES pairs of columns.
static inline void put_pairs(real* to, const vec* sums, const depthwise_problem* p)
{
    const vec first = activate_lanes(sums[0], &p->finish), second = activate_lanes(sums[1], &p->finish);
    vec low, high;
    low.even = first.lo, low.odd = second.lo;
    high.even = first.hi, high.odd = second.hi;
    put_vec(low, 0, to);
    put_vec(high, 1, to);
}

// Rows [y, y + count) of a plane from column x on, of which there are `columns`.
static inline void leave_pairs(vec (*sums)[2][2], int y, int count, int x, int columns, __global stored* result,
                               const depthwise_problem* p)
{
    real values[2 * ROWS * 2 * LANES];
    const int runs_on = p->result_strides[2] == columns;    // the next row lies right behind
    const int step = runs_on ? columns : 2 * LANES;
    // What a short row puts too much the next one overwrites.
    for (int row = 0; row < count; ++row)
        put_pairs(values + row * step, sums[row / 2][row % 2], p);
    __global stored* to = result + y * p->result_strides[2] + x;
    if (runs_on)
        store_run(to, values, count * columns);
    else
        for (int row = 0; row < count; ++row)
            store_run(to + row * p->result_strides[2], values + row * step, columns);
}

// p.shift: the row and column of the source that are the first ones of the field.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_pairs(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                          const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                          __local real* field, int field_rows, int pitch, int each, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], groups = p.groups, blocks = (groups + each - 1) / each;
    const int first = get_group_id(0) % blocks * each, last = min(first + each, groups);
    const long n = get_group_id(0) / blocks;
    const int2 low = (int2)((int)p.shift[1], (int)p.shift[0]);
    source += source_offset;
    w += w_offset;
    result += result_offset + n * p.result_strides[0];
    for (int channel = first; channel < last; ++channel) {
        fill_field(field, field_rows, pitch, source, n * p.source_strides[0] + channel * p.source_strides[1], low, &p);
        const real b = p.finish.has_bias ? load(T, bias, bias_offset + channel) : 0;
        real weights[TAPS * TAPS];
        for (int t = 0; t < TAPS * TAPS; ++t)
            weights[t] = load(T, w, channel * p.w_strides[0] + t / TAPS * p.w_strides[2] + t % TAPS * p.w_strides[3]);
        __global stored* to = result + channel * p.result_strides[1];
        for (int y = 0; y < height; y += 2 * ROWS) {
            for (int x = 0; x < width; x += 2 * LANES) {
                vec sums[ROWS][2][2];
                UNROLLED for (int k = 0; k < ROWS; ++k)
                    UNROLLED for (int which = 0; which < 4; ++which) sums[k][which / 2][which % 2] = b;
                add_pairs(sums, field + y / 2 * pitch + x / 2, pitch, weights);
                leave_pairs(sums, y, min(2 * ROWS, height - y), x, min(2 * LANES, width - x), to, &p);
            }
        }
    }
}
