// The most frequent value of each sorted row: the first of the longest runs of equal elements. -DT=dtype
//     on CPUs   a work-item owns a row;
//     on GPUs   a work-group (of a power of two, TEAM at most) does: work-items that stand where a run begins look for
//               its end in steps that double and halve, and the longest run of all is found in local memory.
#include "core/dtype.cl"

#ifdef CLPRIM_DEVICE_CPU
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
#else
// Elements from `start` on that are equal to the one there; a NaN is equal to none.
static inline ulong run_from(const __global storage_t(T)* sorted, ulong start, ulong n)
{
    const compute_t(T) v = load(T, sorted, start);
    ulong last = start, step = 1;
    for (; last + step < n && load(T, sorted, last + step) == v; step *= 2)
        last += step;
    for (; step > 0; step /= 2)
        if (last + step < n && load(T, sorted, last + step) == v)
            last += step;
    return last + 1 - start;
}

__kernel void mode(const __global storage_t(T)* sorted, ulong sorted_offset, const __global long* order,
                   ulong order_offset, __global storage_t(T)* values, ulong values_offset, __global long* indices,
                   ulong indices_offset, ulong rows, ulong n)
{
    __local ulong lengths[TEAM], starts[TEAM];
    const ulong row = get_group_id(0);
    const uint id = get_local_id(0), team = get_local_size(0);
    sorted += sorted_offset + row * n;
    ulong longest = 0, first = 0;
    for (ulong i = id; i < n; i += team) {
        if (i > 0 && load(T, sorted, i - 1) == load(T, sorted, i))
            continue;
        const ulong length = run_from(sorted, i, n);
        first = length > longest ? i : first;
        longest = max(longest, length);
    }
    lengths[id] = longest;
    starts[id] = first;
    for (uint half_team = team / 2; half_team > 0; half_team /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id >= half_team)
            continue;
        const uint other = id + half_team;
        if (lengths[other] > lengths[id] || (lengths[other] == lengths[id] && starts[other] < starts[id])) {
            lengths[id] = lengths[other];
            starts[id] = starts[other];
        }
    }
    if (id == 0) {
        const ulong best = starts[0] + lengths[0] - 1;
        values[values_offset + row] = sorted[best];
        indices[indices_offset + row] = order[order_offset + row * n + best];
    }
}
#endif
