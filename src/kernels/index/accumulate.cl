// Updates through an index, combined with what is there: index_add, scatter_add, scatter_reduce, index_put(accumulate).
// No atomics: an element has one owner, who applies its updates in the order of the index.
//   accumulate_lines:    one work-item owns a line, all elements that its entries can reach, and walks the entries;
//   accumulate_groups:   the same, but the updates of an element are joined before it is stored, so that float16 and
//                        bfloat16 are rounded once; entries are compared with each other, which only few bear;
//   accumulate_segments: entries sorted by key; the work-item at the start of a run of equal keys owns it;
//   accumulate_bins:     entries of all lines sorted into bins (kernels/bins), one for each element that they reach,
//                        which number_bins gives them; a work-item owns a bin. -DACROSS: neighbours are those of
//                        neighbouring lines, elsewhere those along a line.
// -DT=dtype -DINDEX=int64|int32 -DREDUCE_sum|product|minimum|maximum|assign; operands: self, source, index.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "kernels/index/axis.cl"
#include "kernels/index/geometry.cl"
#include "kernels/index/combine.cl"

// A work-item's line of each operand.
#define LINE_KERNEL(name)                                                                                   \
    __kernel void name(__global storage_t(T)* self, ulong self_offset, const __global storage_t(T)* source, \
                       ulong source_offset, const __global storage_t(INDEX)* index, ulong index_offset,     \
                       long entries, long source_stride, long index_stride, axis_t axis,                    \
                       __global int* errors, int operator_code, geometry_t lines)
#define FIND_LINE                            \
    index_t line = get_global_id(0);         \
    if (line >= (index_t)lines.numel)        \
        return;                              \
    offset_t o[OPERANDS];                    \
    geometry_offsets(lines, line, o);        \
    self += self_offset + o[0];              \
    source += source_offset + o[1];          \
    index += index_offset + o[2];

LINE_KERNEL(accumulate_lines)
{
    FIND_LINE
    for (long j = 0; j < entries; ++j) {
        long at;
        if (!reach(axis, index[j * index_stride], errors, operator_code, &at))
            continue;
        store(T, self, at, combine(load(T, self, at), load(T, source, j * source_stride)));
    }
}

LINE_KERNEL(accumulate_groups)
{
    FIND_LINE
    for (long j = 0; j < entries; ++j) {
        long at, other;
        if (!reach(axis, index[j * index_stride], errors, operator_code, &at))
            continue;
        long i = 0;
        while (i < j && !(reach(axis, index[i * index_stride], errors, operator_code, &other) && other == at))
            ++i;
        if (i < j)
            continue;
        compute_t(T) value = load(T, self, at);
        for (; i < entries; ++i)
            if (reach(axis, index[i * index_stride], errors, operator_code, &other) && other == at)
                value = combine(value, load(T, source, i * source_stride));
        store(T, self, at, value);
    }
}

// keys: offsets in elements, ascending, -1 for bad ones; order[j]: the entry that came to place j.
__kernel void accumulate_segments(__global storage_t(T)* self, ulong self_offset, const __global storage_t(T)* source,
                                  ulong source_offset, const __global long* keys, ulong keys_offset,
                                  const __global long* order, ulong order_offset, long entries, long source_stride,
                                  geometry_t lines)
{
    index_t line = get_global_id(0);
    if (line >= (index_t)lines.numel)
        return;
    keys += keys_offset;
    order += order_offset;
    long j = get_global_id(1);
    if (j >= entries)
        return;
    long key = keys[j];
    if (key < 0 || (j > 0 && keys[j - 1] == key))
        return;
    offset_t o[OPERANDS];
    geometry_offsets(lines, line, o);
    self += self_offset + o[0];
    source += source_offset + o[1];
    compute_t(T) value = load(T, self, key);
    do
        value = combine(value, load(T, source, order[j] * source_stride));
    while (++j < entries && keys[j] == key);
    store(T, self, key, value);
}

#ifdef ACROSS
#define LINE_AND(other) const index_t line = get_global_id(0); const uint other = get_global_id(1)
#define PLACE(other, others) ((other) * (uint)lines.numel + (uint)line)
#else
#define LINE_AND(other) const uint other = get_global_id(0); const index_t line = get_global_id(1)
#define PLACE(other, others) ((uint)line * (others) + (other))
#endif

__kernel void number_bins(const __global storage_t(INDEX)* index, ulong index_offset, __global int* numbers,
                          ulong numbers_offset, uint entries, long index_stride, axis_t axis, __global int* errors,
                          int operator_code, geometry_t lines)
{
    LINE_AND(j);
    if (line >= (index_t)lines.numel || j >= entries)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(lines, line, o);
    long at;
    axis.stride = 1;   // which element along the axis
    const bool good = reach(axis, index[index_offset + o[2] + j * index_stride], errors, operator_code, &at);
    numbers[numbers_offset + PLACE(j, entries)] = good ? (int)PLACE((uint)at, (uint)axis.size) : -1;
}

__kernel void accumulate_bins(__global storage_t(T)* self, ulong self_offset, const __global storage_t(T)* source,
                              ulong source_offset, const __global int* begins, ulong begins_offset,
                              const __global int* list, ulong list_offset, uint entries, long source_stride,
                              axis_t axis, geometry_t lines)
{
    LINE_AND(element);
    if (line >= (index_t)lines.numel || element >= (uint)axis.size)
        return;
    begins += begins_offset + PLACE(element, (uint)axis.size);
    list += list_offset;
    int i = begins[0];
    const int end = begins[1];
    if (i == end)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(lines, line, o);
    self += self_offset + o[0] + element * axis.stride;
    source += source_offset + o[1];
    compute_t(T) value = load(T, self, 0);
#ifdef ACROSS
#define ENTRY(i) ((uint)list[i] / (uint)lines.numel)
#else
#define ENTRY(i) ((uint)list[i] - (uint)line * entries)
#endif
    for (; i + 4 <= end; i += 4) {   // of many, several are under way at once
        compute_t(T) update[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            update[e] = load(T, source, ENTRY(i + e) * source_stride);
#pragma unroll
        for (int e = 0; e < 4; ++e)
            value = combine(value, update[e]);
    }
    for (; i < end; ++i)
        value = combine(value, load(T, source, ENTRY(i) * source_stride));
    store(T, self, 0, value);
}
