// searchsorted: one work-item per value halves the range of its row of boundaries.
// -DT=dtype -DOUT=int32|int64 [-DRIGHT] [-DSORTER]
#include "core/dtype.cl"

__kernel void search(const __global storage_t(T)* boundaries, ulong boundaries_offset,
                     const __global storage_t(T)* values, ulong values_offset, __global storage_t(OUT)* out,
                     ulong out_offset,
#ifdef SORTER
                     const __global long* sorter, ulong sorter_offset,
#endif
                     ulong n, ulong count, ulong row_values)
{
    ulong i = get_global_id(0);
    if (i >= n)
        return;
    ulong row = row_values ? i / row_values * count : 0;   // 0: one row of boundaries for all values
    boundaries += boundaries_offset + row;
#ifdef SORTER
    sorter += sorter_offset + row;
#endif
    compute_t(T) v = load(T, values + values_offset, i);
    ulong low = 0, high = count;
    while (low < high) {
        ulong middle = (low + high) / 2;
#ifdef SORTER
        compute_t(T) b = load(T, boundaries, sorter[middle]);
#else
        compute_t(T) b = load(T, boundaries, middle);
#endif
#ifdef RIGHT
        bool left_of = !(b > v);
#else
        bool left_of = !(b >= v);
#endif
        if (left_of)
            low = middle + 1;
        else
            high = middle;
    }
    out[out_offset + i] = low;
}
