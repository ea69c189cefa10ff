// nonzero.cl on CPUs: a work-item is a work-group of its own, whose loops compilers put into vectors, and divides once.
#include "core/dtype.cl"
#include "kernels/scan/nonzero_shape.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void count_chunks(const __global storage_t(T)* input, ulong input_offset, __global long* counts,
                           ulong counts_offset, ulong n, ulong chunk)
{
    const ulong c = get_global_id(0), begin = c * chunk;
    const int size = min(chunk, n - begin);
    input += input_offset + begin;
    int count = 0;
    for (int i = 0; i < size; ++i)
        count += IS_SET(load(T, input, i)) ? 1 : 0;
    counts[counts_offset + c] = count;
}

#define BLOCK 256   // elements whose set positions are listed first, without a branch for each

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void write_coordinates(const __global storage_t(T)* input, ulong input_offset, const __global long* totals,
                                ulong totals_offset, __global long* coordinates, ulong coordinates_offset,
                                long row_stride, long column_stride, ulong n, ulong chunk, shape_t shape)
{
    const ulong c = get_global_id(0), begin = c * chunk, end = min(begin + chunk, n);
    const int last = shape.dims - 1;
    input += input_offset;
    coordinates += coordinates_offset + (c ? totals[totals_offset + c - 1] : 0) * row_stride;
    long place[16];
    ulong rest = begin;
    for (int d = shape.dims; d-- > 0;) {
        place[d] = rest % shape.sizes[d];
        rest /= shape.sizes[d];
    }
    for (ulong i = begin; i < end;) {
        const int size = min(min(end - i, (ulong)(shape.sizes[last] - place[last])), (ulong)BLOCK);
        int set[BLOCK], count = 0;
        for (int k = 0; k < size; ++k) {
            set[count] = k;
            count += IS_SET(load(T, input, i + k)) ? 1 : 0;
        }
        for (int d = 0; d < last; ++d) {
            __global long* column = coordinates + d * column_stride;
            for (int k = 0; k < count; ++k)
                column[k * row_stride] = place[d];
        }
        __global long* column = coordinates + last * column_stride;
        if (row_stride == 1)
            for (int k = 0; k < count; ++k)
                column[k] = place[last] + set[k];
        else
            for (int k = 0; k < count; ++k)
                column[k * row_stride] = place[last] + set[k];
        coordinates += count * row_stride;
        i += size;
        place[last] += size;
        for (int d = last; d > 0 && place[d] == shape.sizes[d]; --d) {
            place[d] = 0;
            ++place[d - 1];
        }
    }
}
