// The bin of each number: its share of the way from the lowest to the highest, in the order of operations of PyTorch's
// CPU and CUDA kernels, whose rounding decides at the edges of bins.
// -DT=dtype of the numbers
//
// Without: how many go to each place, by whole numbers, whose sum does not depend on the order.
// [-DBINS=as many places as a work-group counts by itself first, in local memory, or more]
#ifdef T
#include "core/dtype.cl"

__kernel void histogram_bins(const __global storage_t(T)* values, ulong values_offset, __global long* out,
                             ulong out_offset, compute_t(T) low, compute_t(T) high, ulong n, long bins)
{
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    compute_t(T) v = load(T, values + values_offset, i), distance = high - low;
    long place = bins;
    if (v >= low && v <= high) {
        // What would not be finite is computed of numbers a power of two smaller, which rounds alike.
        const compute_t(T) part = distance < 1e18f ? 1 : 0x1p-64f;
        place = clamp((long)((v * part - low * part) * bins / (high * part - low * part)), 0L, bins - 1);
    }
    out[out_offset + i] = place;
}
#else
__kernel void count_places(const __global long* places, ulong places_offset, __global uint* counts,
                           ulong counts_offset, ulong n, ulong bins)
{
    places += places_offset;
    counts += counts_offset;
#ifdef BINS
    __local uint mine[BINS];
    for (uint k = get_local_id(0); k < BINS; k += get_local_size(0))
        mine[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
        ulong place = places[i];
        if (place < bins)
#ifdef BINS
            atomic_inc(&mine[place]);
#else
            atomic_inc(&counts[place]);
#endif
    }
#ifdef BINS
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = get_local_id(0); k < BINS; k += get_local_size(0))
        if (mine[k] != 0)
            atomic_add(&counts[k], mine[k]);
#endif
}
#endif
