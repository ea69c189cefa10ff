// Positions of non-zero elements. A work-item owns a chunk: it counts, and later, knowing how many come before, writes
// coordinates. -DT=dtype [-DCOMPLEX]
#include "core/dtype.cl"

#ifdef COMPLEX
#define IS_SET(v) ((v).x != 0 || (v).y != 0)
#else
#define IS_SET(v) ((v) != 0)
#endif

__kernel void count_chunks(const __global storage_t(T)* input, ulong input_offset, __global long* counts,
                           ulong counts_offset, ulong n, ulong chunk, ulong chunks)
{
    ulong c = get_global_id(0);
    if (c >= chunks)
        return;
    input += input_offset;
    long count = 0;
    for (ulong i = c * chunk, end = min(i + chunk, n); i < end; ++i) {
        compute_t(T) v = load(T, input, i);
        count += IS_SET(v) ? 1 : 0;
    }
    counts[counts_offset + c] = count;
}

typedef struct {
    int dims, pad;
    long sizes[16];
} shape_t;

__kernel void write_coordinates(const __global storage_t(T)* input, ulong input_offset, const __global long* totals,
                                ulong totals_offset, __global long* coordinates, ulong coordinates_offset,
                                long row_stride, long column_stride, ulong n, ulong chunk, ulong chunks, shape_t shape)
{
    ulong c = get_global_id(0);
    if (c >= chunks)
        return;
    input += input_offset;
    coordinates += coordinates_offset;
    long at = c ? totals[totals_offset + c - 1] : 0;
    for (ulong i = c * chunk, end = min(i + chunk, n); i < end; ++i) {
        compute_t(T) v = load(T, input, i);
        if (!IS_SET(v))
            continue;
        ulong rest = i;
        for (int d = shape.dims; d-- > 0;) {
            coordinates[at * row_stride + d * column_stride] = rest % shape.sizes[d];
            rest /= shape.sizes[d];
        }
        ++at;
    }
}
