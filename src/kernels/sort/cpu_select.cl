// The best `keep` of many elements on CPUs: a work-item owns a part of a row and keeps the best so far in a heap, the
// worst of them in front, which few elements are better than. Launch: (parts, rows).
//   -DT=dtype -DKEY_... [-DWIDE] [-DDESCENDING] -DKEEP=n, at least `keep`
//   -DFROM_ITEMS: as in tiles.cl;   -DTO_ITEMS: the best of each part go out, in order
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"

#define BLOCK 64   // elements that are compared with the worst at once

// Puts an item in the place of heap[at], and moves it down to where it belongs among the first `count`.
static inline void sift(item_t* heap, uint at, uint count, item_t item)
{
    for (uint child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(heap[child], heap[child + 1]))
            ++child;
        if (!before(item, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
}

#ifdef DESCENDING
#define MAY_BE_BETTER(v, worst) !((v) <= (worst))   // or a NaN
#else
#define MAY_BE_BETTER(v, worst) !((v) >= (worst))
#endif

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void select_best(ROWS_OF_ITEMS, ulong n, uint keep, ulong part, geometry_t rows)
{
    const ulong row = get_global_id(1), begin = get_global_id(0) * part, end = min(begin + part, n);
    offset_t o[OPERANDS];
    geometry_offsets(rows, (index_t)row, o);
    input += input_offset + o[0];
#ifdef FROM_ITEMS
    items += items_offset + row * n;
#define ITEM(i) items[i]
#else
#define ITEM(i) item_of(load(T, input, (long)(i) * input_stride), i)
#endif
    item_t heap[KEEP];
    const uint count = min((ulong)keep, end - begin);
    for (uint i = 0; i < count; ++i)
        heap[i] = ITEM(begin + i);
    for (uint i = count / 2; i-- > 0;)
        sift(heap, i, count, heap[i]);
    ulong at = begin + count;
#ifndef FROM_ITEMS
    while (at + BLOCK <= end) {
        const compute_t(T) worst = load(T, input, (long)POSITION(heap[0]) * input_stride);
        int better = 0;
        if (input_stride == 1)
            for (uint i = 0; i < BLOCK; ++i)
                better |= MAY_BE_BETTER(load(T, input, at + i), worst);
        else
            for (uint i = 0; i < BLOCK; ++i)
                better |= MAY_BE_BETTER(load(T, input, (long)(at + i) * input_stride), worst);
        const ulong stop = at + BLOCK;
        for (; better && at < stop; ++at) {
            const item_t item = ITEM(at);
            if (before(item, heap[0]))
                sift(heap, 0, count, item);
        }
        at = stop;
    }
#endif
    for (; at < end; ++at) {
        const item_t item = ITEM(at);
        if (before(item, heap[0]))
            sift(heap, 0, count, item);
    }
    for (uint last = count; last-- > 1;) {   // the worst to the end, and so on
        const item_t item = heap[last];
        heap[last] = heap[0];
        sift(heap, 0, last, item);
    }
#ifdef TO_ITEMS
    kept += kept_offset + (row * get_global_size(0) + get_global_id(0)) * keep;
    for (uint i = 0; i < keep; ++i)
        kept[i] = i < count ? heap[i] : PADDING;
#else
    GIVE_ITEMS(heap, count)
#endif
}
