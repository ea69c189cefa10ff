// Positions of non-zero elements. A work-item owns a chunk: it counts, and later, knowing how many come before, writes
// coordinates. -DT=dtype [-DCOMPLEX]
#include "core/dtype.cl"

#include "kernels/scan/nonzero_shape.cl"

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

// By constant places, so that the shape stays in registers: GPUs put what a variable indexes into private memory.
static long size_of(const shape_t* shape, int d)
{
    long size = shape->sizes[0];
#define PICK(i) size = d == i ? shape->sizes[i] : size;
    PICK(1) PICK(2) PICK(3) PICK(4) PICK(5) PICK(6) PICK(7) PICK(8)
    PICK(9) PICK(10) PICK(11) PICK(12) PICK(13) PICK(14) PICK(15)
#undef PICK
    return size;
}

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
            const ulong size = size_of(&shape, d), next = rest / size;
            coordinates[at * row_stride + d * column_stride] = rest - next * size;
            rest = next;
        }
        ++at;
    }
}
