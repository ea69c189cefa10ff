// Row-major resampling on CPUs: a work-item owns COLUMNS places of some lines of y, whose elements in x are at most
// LENGTH. For each line it adds up lines of x, whole vectors of neighbours, then takes what every place needs out of
// the sums; where neighbours read less, cpu_windows.cl does. Launch: (blocks of columns, blocks of lines). Options:
// those of axes.cl; -DCOLUMNS=n, -DLENGTH=n.
#include "kernels/resample/cpu_lines.cl"

// Places o .. o + n - 1 of a line whose sums begin with element `begin`, n <= 16.
static inline sums_t take_places(const ACC* line, int begin, const resample_t* p, const __global int* first,
                                 const __global ACC* weights, int o, uint n)
{
    ACC sums[16] = {0};
    for (uint i = 0; i < n; ++i) {
        const int count = TAPS ? TAPS : first[p->out[2] + o + i];
        for (int k = 0; k < count; ++k) {
            const ACC v = line[clamp(first[o + i] + k, 0, p->in[2] - 1) - begin];
#ifdef UNWEIGHTED
            sums[i] += v;
#else
            sums[i] += weights[k * p->out[2] + o + i] * v;
#endif
        }
    }
    return vload16(0, sums);
}

__kernel void resample_rows(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y, ulong y_offset,
                            const __global int* places, ulong places_offset, const __global ACC* weights,
                            ulong weights_offset, resample_t p, uint lines_each)
{
    const int o0 = get_global_id(0) * COLUMNS, o1 = min(o0 + COLUMNS, p.out[2]);
    const uint rows = p.out[0] * p.out[1];
    const ulong lines = (ulong)p.planes * rows, end_line = min((get_global_id(1) + 1) * (ulong)lines_each, lines);
    x += x_offset;
    y += y_offset;
    places += places_offset;
    weights += weights_offset;
    const __global int* first = places + places_of(&p, 2);
    const __global ACC* weights_x = weights + weights_of(&p, 2);
    const int begin = clamp(first[o0], 0, p.in[2] - 1);
    const int end = clamp(first[o1 - 1] + first[p.out[2] + o1 - 1], begin, p.in[2]);
    for (ulong line = get_global_id(1) * (ulong)lines_each; line < end_line; ++line) {
        FIND_LINE(line)
        ACC sums[LENGTH];
        sum_lines(x + image * ((ulong)p.in[0] * p.in[1] * p.in[2]), weights, &p, zy, 1, begin, end - begin, sums);
        for (int o = o0; o < o1; o += 16) {
            const uint n = min(o1 - o, 16);
            store_sums(y, line * p.out[2] + o, n, take_places(sums, begin, &p, first, weights_x, o, n));
        }
    }
}
