// The most frequent value of each sorted row. One work-item owns a row. -DT=dtype
#include "core/dtype.cl"

__kernel void mode(const __global storage_t(T)* sorted, ulong sorted_offset, const __global long* order,
                   ulong order_offset, __global storage_t(T)* values, ulong values_offset, __global long* indices,
                   ulong indices_offset, ulong rows, ulong n)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    sorted += sorted_offset + row * n;
    ulong best = 0, longest = 0, start = 0;
    for (ulong i = 1; i <= n; ++i) {
        compute_t(T) v = load(T, sorted, start);
        if (i < n && load(T, sorted, i) == v)
            continue;
        if (i - start > longest) {
            longest = i - start;
            best = i - 1;
        }
        start = i;
    }
    values[values_offset + row] = sorted[best];
    indices[indices_offset + row] = order[order_offset + row * n + best];
}
