// Resampling of channels_last tensors on CPUs where neighbouring places share what they read, or channels are few: a
// work-item owns `columns` places of some lines of y. For each line it adds up lines of x, whole vectors of pixels and
// channels, then takes places out of the sums, TOGETHER channels at a time. Launch: (blocks of columns, of lines).
// Options: those of axes.cl; -DTOGETHER=4, 8 or 16, no less than channels if these are fewer than 16, else -DVECTORS;
// -DMOST: elements of a block on either side.
#include "kernels/resample/cpu_pixel_block.cl"

typedef CLPRIM_CAT(ACC, TOGETHER) lanes_t;
#define load_lane_sums CLPRIM_CAT(vload, TOGETHER)
#define store_lane_sums CLPRIM_CAT(vstore, TOGETHER)

__kernel void resample_pixel_lines(const __global storage_t(X)* x, ulong x_offset, __global storage_t(X)* y,
                                   ulong y_offset, const __global int* places, ulong places_offset,
                                   const __global ACC* weights, ulong weights_offset, resample_t p, uint lines_each,
                                   uint columns)
{
    BEGIN_PIXEL_BLOCK(columns)
    const __global int* first = places + places_of(&p, 2);
    const int begin = clamp(first[o0], 0, p.in[2] - 1);
    const int end = clamp(first[o1 - 1] + first[p.out[2] + o1 - 1], begin, p.in[2]);
    const uint n = (end - begin) * p.channels;
    // What lies beyond is read and written where TOGETHER are more than channels, and never used.
    ACC sums[MOST + 16];
#ifndef VECTORS
    ACC taken[MOST + 16];
#endif
    for (int i = 0; i < 16; ++i)
        sums[n + i] = 0;
    for (ulong line = get_global_id(1) * (ulong)lines_each; line < end_line; ++line) {
        FIND_LINE(line)
        sum_lines(x + image * ((ulong)p.in[0] * p.in[1] * p.in[2]) * p.channels, weights, &p, zy, p.channels,
                  (ulong)begin * p.channels, n, sums);
        const ulong result = (line * p.out[2] + o0) * p.channels;
        for (int o = o0; o < o1; ++o) {
            const place_t tx = place_at(&p, places, 2, o);
            for (uint at = 0; at < p.channels; at += TOGETHER) {
                const uint c = TOGETHER == 16 ? BLOCK_FROM(at, p.channels) : 0;
                lanes_t sum = 0;
                for (int k = 0; k < TAPS_OF(tx, 2); ++k)
                    sum += (ACC)WEIGHT(tx, k) *
                           load_lane_sums(0, sums + (element_of(tx, k) - begin) * p.channels + c);
#ifdef VECTORS
                store_sums(y, result + (o - o0) * p.channels + c, 16, sum);
#else
                store_lane_sums(sum, 0, taken + (o - o0) * p.channels + c);
#endif
            }
        }
#ifndef VECTORS
        const uint results = (o1 - o0) * p.channels;
        for (uint at = 0; at < results; at += 16) {
            const uint to = BLOCK_FROM(at, results), count = min(results - to, 16u);
            store_sums(y, result + to, count, vload16(0, taken + to));
        }
#endif
    }
}
