// Row-major resampling on CPUs: a work-item owns COLUMNS places of some lines of y. For each line it adds up lines of
// x, whole vectors of neighbours, then takes what the places of a vector need out of the sums: by exchanging lanes if
// 16 places read no more than WINDOWS vectors, else one by one. Launch: (blocks of columns, blocks of lines). Options:
// those of axes.cl; -DCOLUMNS=n, a multiple of 16, whose elements in x are at most LENGTH; -DWINDOWS=2, 1 or 0.
#include "kernels/resample/cpu_sums.cl"

#define lanes_float(lane) as_uint16(lane)
#define lanes_double(lane) convert_ulong16(lane)
#define taps_float(count) (count)
#define taps_double(count) convert_long16(count)

// Elements [at, at + n) of the lines that z0 and y0 read, weighted.
static inline sums_t sum_lines(const __global storage_t(X)* x, const __global ACC* weights, const resample_t* p,
                               const place_t places[2], int at, uint n)
{
    const place_t tz = places[0], ty = places[1];
    sums_t sum = 0;
    for (int kz = 0; kz < TAPS_OF(tz, 0); ++kz)
        for (int ky = 0; ky < TAPS_OF(ty, 1); ++ky) {
            const ACC factor = WEIGHT_OF(tz, 0, kz) * WEIGHT_OF(ty, 1, ky);
            const ulong from = ((ulong)element_of(tz, kz) * p->in[1] + element_of(ty, ky)) * p->in[2];
            sum += factor * load_sums(x, from + at, n);
        }
    return sum;
}

// Places o .. o + n - 1 of a line whose sums begin with element `begin`.
static inline sums_t take_places(const ACC* line, int begin, const resample_t* p, const __global int* first,
                                 const __global ACC* weights, int o, uint n)
{
#if WINDOWS
    if (n == 16) {
        const int most = p->in[2] - 1, base = clamp(first[o], 0, most);
        const sums_t low = vload16(0, line + (base - begin));
#if WINDOWS == 2
        const sums_t high = vload16(1, line + (base - begin));
#endif
        sums_t sum = 0;
        const int most_taps = TAPS ? TAPS : p->taps[2];
        for (int k = 0; k < most_taps; ++k) {
            const int16 lane = clamp(vload16(0, first + o) + k, 0, most) - base;
#if WINDOWS == 2
            const sums_t taken = shuffle2(low, high, CLPRIM_CAT(lanes_, ACC)(lane));
#else
            const sums_t taken = shuffle(low, CLPRIM_CAT(lanes_, ACC)(lane));
#endif
#ifdef UNWEIGHTED
            const sums_t product = taken;
#else
            const sums_t product = vload16(0, weights + k * p->out[2] + o) * taken;
#endif
#if TAPS
            sum += product;
#else
            sum += k < CLPRIM_CAT(taps_, ACC)(vload16(0, first + p->out[2] + o)) ? product : (sums_t)0;
#endif
        }
        return sum;
    }
#endif
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
        const ulong plane = line / rows;
        const int row = line - plane * rows, z0 = DIMS == 3 ? row / p.out[1] : 0, y0 = row - z0 * p.out[1];
        const place_t zy[2] = {place_at(&p, places, 0, z0), place_at(&p, places, 1, y0)};
        const __global storage_t(X)* from = x + plane * ((ulong)p.in[0] * p.in[1] * p.in[2]);
        ACC sums[LENGTH + 32];
        // The last vector ends with the last element: some are added up twice.
        for (int at = begin; at < end; at += 16) {
            const int to = end - at < 16 && end - begin >= 16 ? end - 16 : at;
            vstore16(sum_lines(from, weights, &p, zy, to, min(end - to, 16)), 0, sums + (to - begin));
        }
        for (int o = o0; o < o1; o += 16) {
            const uint n = min(o1 - o, 16);
            store_sums(y, line * p.out[2] + o, n, take_places(sums, begin, &p, first, weights_x, o, n));
        }
    }
}
