// Depthwise convolution on a CPU device, channels_last, small planes, taps that lie side by side and every column of
// the source: 3x3, 5x5 or 7x7 (-DTAPS).
//
// A work-item owns LANES channels of `each` images: their weights and the plane of the source, with zeros beside its
// rows, stay in its near cache. A column is loaded once for all TOGETHER results of a row that it is a tap of.
#include "kernels/conv/lanes.cl"
#include "kernels/conv/depthwise_problem.cl"

#define TOGETHER 7
#define UNROLLED __attribute__((opencl_unroll_hint(16)))

// Adds a row of taps to neighbouring results.
static inline void add_row(vec* sums, const __local real* from, const vec* weights)
{
    vec w[TAPS];
    UNROLLED for (int tap = 0; tap < TAPS; ++tap) w[tap] = weights[tap];
    UNROLLED for (int i = 0; i < TOGETHER + TAPS - 1; ++i)
    {
        const vec column = get_vec(i, from);
        UNROLLED for (int k = 0; k < TOGETHER; ++k) if (i >= k && i - k < TAPS) sums[k] =
            fma(w[i - k], column, sums[k]);
    }
}

// channels_last, at least LANES channels: the last vector overlaps the one before it. `field`: in[0] rows of `pitch`.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_planes(const __global stored* source, ulong source_offset, const __global stored* w,
                           ulong w_offset, const __global stored* bias, ulong bias_offset, __global stored* result,
                           ulong result_offset, __local real* field, int pitch, int each, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], rows = p.in[0], channels = p.groups;
    const int blocks = (channels + LANES - 1) / LANES, first = get_group_id(0) / blocks * each;
    const int c = min((int)(get_group_id(0) % blocks) * LANES, channels - LANES);
    const int last = min(first + each, (int)p.batch);
    const int turn_y = p.step[0] < 0, turn_x = p.step[1] < 0;   // taps are in the order of their places in the source
    const int low_y = (int)p.shift[0] - turn_y * (TAPS - 1), low_x = (int)p.shift[1] - turn_x * (TAPS - 1);
    const long next = p.source_strides[3], next_result = p.result_strides[3];
    source += source_offset + c;
    w += w_offset + c * p.w_strides[0];
    result += result_offset + c;
    vec weights[TAPS * TAPS];
    for (int t = 0; t < TAPS * TAPS; ++t) {
        const int ty = turn_y ? TAPS - 1 - t / TAPS : t / TAPS, tx = turn_x ? TAPS - 1 - t % TAPS : t % TAPS;
        const __global stored* tap = w + (p.tap_first[0] + ty * p.tap_period[0]) * p.w_strides[2] +
                                     (p.tap_first[1] + tx * p.tap_period[1]) * p.w_strides[3];
        real values[LANES];
        for (int i = 0; i < LANES; ++i)
            values[i] = load(T, tap, i * p.w_strides[0]);
        weights[t] = get_vec(0, values);
    }
    const vec b = p.finish.has_bias ? load_lanes(bias + bias_offset + c) : (vec)0;
    const int begin = max(0, -low_x), end = min(pitch, (int)p.in[1] - low_x);   // columns that the source has
    for (int i = 0; i < rows * pitch; ++i)
        put_vec((vec)0, i, field);
    for (int n = first; n < last; ++n) {
        for (int row = 0; row < rows; ++row) {
            const __global stored* from = source + n * p.source_strides[0] + row * p.source_strides[2] + low_x * next;
            for (int i = begin; i < end; ++i)
                put_vec(load_lanes(from + i * next), row * pitch + i, field);
        }
        for (int y = 0; y < height; ++y) {
            const int top = y + low_y, from = max(0, -top), to = min(TAPS, rows - top);
            for (int done = 0; done < width; done += TOGETHER) {
                const int x = width >= TOGETHER ? min(done, width - TOGETHER) : 0;   // the last overlap those before
                vec sums[TOGETHER];
                UNROLLED for (int k = 0; k < TOGETHER; ++k) sums[k] = b;
                for (int ty = from; ty < to; ++ty)
                    add_row(sums, field + ((top + ty) * pitch + x) * LANES, weights + ty * TAPS);
                __global stored* at = result + n * p.result_strides[0] + y * p.result_strides[2] + x * next_result;
                UNROLLED for (int k = 0; k < TOGETHER; ++k)
                {
                    if (k < width)
                        store_lanes(at + k * next_result, activate_lanes(sums[k], &p.finish));
                }
            }
        }
    }
}
