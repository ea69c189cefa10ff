// Sorted runs of up to RUN elements of a row on CPUs, a work-item each: by the digits of keys from the lowest on (LSD
// radix sort, which is stable), without those that all elements share; few elements by insertion. Launch: (runs, blocks
// of rows_each rows).
//   -DT=dtype -DKEY_... [-DWIDE] [-DDESCENDING] -DRUN=n; -DTO_ITEMS: rows of n items go out; otherwise the first `keep`
//   values and positions of each row, which is one run
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"

#define FEW 32
#ifdef WIDE
#define DIGITS 8
#define DIGIT(item, d) ((uchar)((item).x >> (8 * (d))))
#else
#define DIGITS 4
#define DIGIT(item, d) ((uchar)((item) >> (32 + 8 * (d))))
#endif

// The items in order: where they are in the end, `items` or `other`.
static inline item_t* sort_by_digits(item_t* items, item_t* other, uint count)
{
    uint counts[DIGITS][256] = {{0}};
    for (uint i = 0; i < count; ++i)
        for (int d = 0; d < DIGITS; ++d)
            ++counts[d][DIGIT(items[i], d)];
    for (int d = 0; d < DIGITS; ++d) {
        if (counts[d][DIGIT(items[0], d)] == count)
            continue;
        uint next = 0;
        for (uint digit = 0; digit < 256; ++digit) {
            const uint n = counts[d][digit];
            counts[d][digit] = next;
            next += n;
        }
        for (uint i = 0; i < count; ++i)
            other[counts[d][DIGIT(items[i], d)]++] = items[i];
        item_t* swapped = items;
        items = other;
        other = swapped;
    }
    return items;
}

static inline void insert_few(item_t* items, uint count)
{
    for (uint i = 1; i < count; ++i) {
        const item_t item = items[i];
        uint at = i;
        for (; at > 0 && before(item, items[at - 1]); --at)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void sort_runs(ROWS_OF_ITEMS, ulong n, ulong keep, uint rows_each, geometry_t rows)
{
    const ulong begin = get_global_id(0) * RUN, first_row = get_global_id(1) * (ulong)rows_each;
    const uint count = min((ulong)RUN, n - begin);
    const __global storage_t(T)* all = input + input_offset;
    item_t memory[2][RUN];
    for (ulong row = first_row; row < min(first_row + rows_each, (ulong)rows.numel); ++row) {
        offset_t o[OPERANDS];
        geometry_offsets(rows, (index_t)row, o);
        input = all + o[0];
        item_t* items = memory[0];
        for (uint i = 0; i < count; ++i)
            items[i] = item_of(load(T, input, (long)(begin + i) * input_stride), begin + i);
        if (count <= FEW)
            insert_few(items, count);
        else
            items = sort_by_digits(items, memory[1], count);
#ifdef TO_ITEMS
        __global item_t* to = kept + kept_offset + row * n + begin;
        for (uint i = 0; i < count; ++i)
            to[i] = items[i];
#else
        GIVE_ITEMS(items, min((ulong)count, keep))
#endif
    }
}
