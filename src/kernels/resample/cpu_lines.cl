// Lines of x added up along z and y for a line of y, which resampling's kernels on CPUs begin with.
#include "kernels/resample/cpu_sums.cl"

#define LONG 4   // vectors that are added up at a time

// Vectors of 16 that cover n elements; the last ends with the last element where there are 16.
#define BLOCK_FROM(at, n) ((n) - (at) < 16 && (n) >= 16 ? (n) - 16 : (at))

// Elements [0, n) behind `from` of the lines that z and y read, weighted; a line has in[2] places of `channels`.
static inline void sum_lines(const __global storage_t(X)* x, const __global ACC* weights, const resample_t* p,
                             const place_t zy[2], uint channels, ulong from, uint n, ACC* sums)
{
    const place_t tz = zy[0], ty = zy[1];
#define EACH_LINE                                                                                                     \
    for (int kz = 0; kz < TAPS_OF(tz, 0); ++kz)                                                                       \
        for (int ky = 0; ky < TAPS_OF(ty, 1); ++ky)
#define LINE ((((ulong)element_of(tz, kz) * p->in[1] + element_of(ty, ky)) * p->in[2]) * channels + from)
#define FACTOR (WEIGHT_OF(tz, 0, kz) * WEIGHT_OF(ty, 1, ky))
    uint at = 0;
    for (; at + 16 * LONG <= n; at += 16 * LONG) {
        sums_t sum[LONG];
        for (int i = 0; i < LONG; ++i)
            sum[i] = 0;
        EACH_LINE {
            const ACC factor = FACTOR;
            const ulong line = LINE + at;
            for (int i = 0; i < LONG; ++i)
                sum[i] = fma((sums_t)factor, load_sums(x, line + 16 * i, 16), sum[i]);
        }
        for (int i = 0; i < LONG; ++i)
            vstore16(sum[i], i, sums + at);
    }
    for (; at < n; at += 16) {
        const uint to = BLOCK_FROM(at, n), count = min(n - to, 16u);
        sums_t sum = 0;
        EACH_LINE sum = fma((sums_t)FACTOR, load_sums(x, LINE + to, count), sum);
        vstore16(sum, 0, sums + to);
    }
}

// Where line `line` of y lies: its image or plane, and its places along z and y.
#define FIND_LINE(line)                                                                                               \
    const ulong image = (line) / rows;                                                                                \
    const int row = (line) - image * rows, z0 = DIMS == 3 ? row / p.out[1] : 0, y0 = row - z0 * p.out[1];             \
    const place_t zy[2] = {place_at(&p, places, 0, z0), place_at(&p, places, 1, y0)};
