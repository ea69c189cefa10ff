// The bin of each number: its share of the way from the lowest to the highest, in the order of operations of PyTorch's
// CPU and CUDA kernels, whose rounding decides at the edges of bins.
// -DT=dtype of the numbers
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
        place = min((long)((v * part - low * part) * bins / (high * part - low * part)), bins - 1);
    }
    out[out_offset + i] = place;
}
