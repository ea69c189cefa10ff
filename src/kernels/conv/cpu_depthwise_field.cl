// Depthwise convolution on a CPU device, planar layout, taps that lie side by side and every column of the source: 3x3,
// 5x5 or 7x7 (-DTAPS).
//
// A work-item owns `each` planes of the result. The source is copied, as it is computed in and with zeros around it,
// into a field, from which a vector of columns is loaded once for all rows of the result that it is a tap of: ROWS.
// Planes of few columns share vectors, two of them (-DPAIRS), where rows of the result lie behind each other.
#include "kernels/conv/depthwise_field.cl"

#define ROWS 7
#ifdef PAIRS
#define TOGETHER 2
typedef vec weight_t;
#else
#define TOGETHER 1
typedef real weight_t;
#endif

// ROWS rows of LANES results from the field at `from`; `second`: from there to the field that has the other half.
static inline void add_block(vec* sums, const __local real* from, int second, int pitch, const weight_t* weights)
{
    for (int tx = 0; tx < TAPS; ++tx) {
        vec w[TAPS];
        UNROLLED for (int ty = 0; ty < TAPS; ++ty) w[ty] = weights[ty * TAPS + tx];
        UNROLLED for (int i = 0; i < ROWS + TAPS - 1; ++i)
        {
            const __local real* at = from + i * pitch + tx;
#ifdef PAIRS
            const vec v = (vec)(vload8(0, at), vload8(0, at + second));
#else
            const vec v = get_vec(0, at);
#endif
            UNROLLED for (int k = 0; k < ROWS; ++k) if (i >= k && i - k < TAPS) sums[k] = fma(w[i - k], v, sums[k]);
        }
    }
}

// Rows [y, y + count) of a plane, or of two, from column x on.
static inline void leave_block(const vec* sums, int y, int count, int x, __global stored* result,
                               __global stored* second, const depthwise_problem* p)
{
    const int width = p->out[1];
#ifdef PAIRS
    real values[2][ROWS * LANES];
    for (int k = 0; k < count; ++k) {   // what a row writes too much the next one overwrites
        const vec v = activate_lanes(sums[k], &p->finish);
        vstore8(v.lo, 0, values[0] + k * width);
        vstore8(v.hi, 0, values[1] + k * width);
    }
    store_run(result + y * width, values[0], count * width);
    if (second)
        store_run(second + y * width, values[1], count * width);
#else
    const int dense = p->result_strides[2] == width;
    UNROLLED for (int k = 0; k < ROWS; ++k)
    {
        if (k >= count)
            break;
        const vec v = activate_lanes(sums[k], &p->finish);
        __global stored* to = result + (y + k) * p->result_strides[2] + x;
        // What a short row writes too much the next row overwrites.
        if (width >= LANES || (dense && (y + k) * width + LANES <= p->out[0] * width)) {
            store_lanes(to, v);
        } else {
            real values[LANES];
            put_vec(v, 0, values);
            store_run(to, values, width);
        }
    }
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_depthwise_field(const __global stored* source, ulong source_offset, const __global stored* w, ulong w_offset,
                          const __global stored* bias, ulong bias_offset, __global stored* result, ulong result_offset,
                          __local real* field, int field_rows, int pitch, int each, depthwise_problem p)
{
    const int height = p.out[0], width = p.out[1], groups = p.groups, blocks = (groups + each - 1) / each;
    const int first = get_group_id(0) % blocks * each, last = min(first + each, groups), second = field_rows * pitch;
    const long n = get_group_id(0) / blocks;
    const int turn_y = p.step[0] < 0, turn_x = p.step[1] < 0;   // taps are in the order of their places in the source
    const int2 low = (int2)((int)p.shift[1] - turn_x * (TAPS - 1), (int)p.shift[0] - turn_y * (TAPS - 1));
    source += source_offset;
    w += w_offset;
    result += result_offset + n * p.result_strides[0];
    int places[TAPS * TAPS];
    for (int t = 0; t < TAPS * TAPS; ++t) {
        const int ty = turn_y ? TAPS - 1 - t / TAPS : t / TAPS, tx = turn_x ? TAPS - 1 - t % TAPS : t % TAPS;
        places[t] = (p.tap_first[0] + ty * p.tap_period[0]) * p.w_strides[2] +
                    (p.tap_first[1] + tx * p.tap_period[1]) * p.w_strides[3];
    }
    for (int channel = first; channel < last; channel += TOGETHER) {
        weight_t weights[TAPS * TAPS], b;
        const int other = min(channel + TOGETHER - 1, last - 1);
        for (int i = 0; i < TOGETHER; ++i) {
            const int c = i ? other : channel;
            fill_field(field + i * second, field_rows, pitch, source,
                       n * p.source_strides[0] + c * p.source_strides[1], low, &p);
            const __global stored* taps = w + c * p.w_strides[0];
            const real own_bias = p.finish.has_bias ? load(T, bias, bias_offset + c) : 0;
#ifdef PAIRS
            b = i ? (vec)(b.lo, (float8)own_bias) : (vec)own_bias;
            for (int t = 0; t < TAPS * TAPS; ++t) {
                const real tap = load(T, taps, places[t]);
                weights[t] = i ? (vec)(weights[t].lo, (float8)tap) : (vec)tap;
            }
#else
            b = own_bias;
            for (int t = 0; t < TAPS * TAPS; ++t)
                weights[t] = load(T, taps, places[t]);
#endif
        }
        __global stored* to = result + channel * p.result_strides[1];
        __global stored* to_other = other > channel ? result + other * p.result_strides[1] : 0;
        for (int done_y = 0; done_y < height; done_y += ROWS) {
            const int y = height >= ROWS ? min(done_y, height - ROWS) : 0;   // the last rows overlap those before
            for (int done = 0; done < width; done += LANES) {
                const int x = width >= LANES ? min(done, width - LANES) : 0;
                vec sums[ROWS];
                UNROLLED for (int k = 0; k < ROWS; ++k) sums[k] = b;
                add_block(sums, field + y * pitch + x, second, pitch, weights);
                leave_block(sums, y, min(ROWS, height), x, to, to_other, &p);
            }
        }
    }
}
