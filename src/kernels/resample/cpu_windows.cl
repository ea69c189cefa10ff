// Resampling on CPUs where 16 neighbouring elements of a line of y read at most WINDOWS vectors of neighbours in x: a
// work-item owns COLUMNS elements of some lines of y, places of `channels` neighbours each (1 where tensors are
// row-major). For each line it adds up lines of x, then takes what 16 elements need out of the sums by exchanging
// lanes. Launch: (blocks of columns, blocks of lines). Options: those of axes.cl; -DCOLUMNS=n, a multiple of 16, whose
// elements in x are at most LENGTH; -DWINDOWS=1, 2, 4 or 8.
#include "kernels/resample/cpu_lines.cl"

#define flags_float(flag) (flag)
#define flags_double(flag) convert_long16(flag)
#define NO_TAP 128   // in a lane: the place has fewer taps

// Lanes of a vector by their numbers, which are less than 16. Written like this it becomes one instruction, while
// shuffle of unknown lanes takes eight.
static inline sums_t exchanged(sums_t v, int16 lane)
{
    return (sums_t)(v[lane.s0], v[lane.s1], v[lane.s2], v[lane.s3], v[lane.s4], v[lane.s5], v[lane.s6], v[lane.s7],
                    v[lane.s8], v[lane.s9], v[lane.sa], v[lane.sb], v[lane.sc], v[lane.sd], v[lane.se], v[lane.sf]);
}

// Lanes of WINDOWS vectors, by the bits of their numbers.
#define HAS_BIT(bit) CLPRIM_CAT(flags_, ACC)((lane & (bit)) != 0)
#define ONE(i) exchanged(window[i], low)
#define TWO(i) (HAS_BIT(16) ? ONE((i) + 1) : ONE(i))
#define FOUR(i) (HAS_BIT(32) ? TWO((i) + 2) : TWO(i))
#if WINDOWS == 1
#define TAKE ONE(0)
#elif WINDOWS == 2
#define TAKE TWO(0)
#elif WINDOWS == 4
#define TAKE FOUR(0)
#else
#define TAKE (HAS_BIT(64) ? FOUR(4) : FOUR(0))
#endif

// 16 elements of a line: `lanes` of their taps are `step` apart, as are their weights.
static inline sums_t take_elements(const ACC* line, const __global uchar* lanes, const __global ACC* weights, int taps,
                                   int step)
{
    sums_t window[WINDOWS], sum = 0;
    for (int i = 0; i < WINDOWS; ++i)
        window[i] = vload16(i, line);
    for (int k = 0; k < (TAPS ? TAPS : taps); ++k) {
        const int16 lane = convert_int16(vload16(0, lanes + k * step)), low = lane & 15;
#if TAPS || defined(BYTES)   // bytes are finite, and what is no tap weighs nothing
        const sums_t taken = TAKE;
#else
        const sums_t taken = HAS_BIT(NO_TAP) ? (sums_t)0 : TAKE;
#endif
#ifdef UNWEIGHTED
        sum += taken;
#else
        sum = fma(vload16(0, weights + k * step), taken, sum);
#endif
    }
    return sum;
}

// `lanes`, as ints: first and last element of x behind the last that each 16 elements read, then their taps' lanes
// relative to the first, a row of whole vectors for every tap; `factors` alike.
__kernel void resample_windows(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y,
                               ulong y_offset, const __global int* places, ulong places_offset,
                               const __global ACC* weights, ulong weights_offset, resample_t p, uint lines_each,
                               const __global int* lanes, ulong lanes_offset, const __global ACC* factors,
                               ulong factors_offset, uint channels)
{
    const int width = p.out[2] * channels, vectors = (width + 15) / 16, step = 16 * vectors;
    const int o0 = get_global_id(0) * COLUMNS, o1 = min(o0 + COLUMNS, width);
    const uint rows = p.out[0] * p.out[1];
    const ulong lines = p.planes / channels * (ulong)rows;
    const ulong end_line = min((get_global_id(1) + 1) * (ulong)lines_each, lines);
    x += x_offset;
    y += y_offset;
    places += places_offset;
    weights += weights_offset;
    lanes += lanes_offset;
    factors += factors_offset;
    const __global uchar* lane_rows = (const __global uchar*)(lanes + 2 * vectors);
    const int begin = lanes[o0 / 16], end = lanes[vectors + (o1 - 1) / 16];
    // Vectors may reach beyond what is added up: nothing takes it.
    ACC sums[LENGTH + 16 * WINDOWS];
    for (ulong line = get_global_id(1) * (ulong)lines_each; line < end_line; ++line) {
        FIND_LINE(line)
        sum_lines(x + image * ((ulong)p.in[0] * p.in[1] * p.in[2]) * channels, weights, &p, zy, channels, begin,
                  end - begin, sums);
        for (int o = o0; o < o1; o += 16) {
            const sums_t sum = take_elements(sums + (lanes[o / 16] - begin), lane_rows + o, factors + o, p.taps[2],
                                             step);
            store_sums(y, line * width + o, (uint)min(o1 - o, 16), sum);
        }
    }
}
