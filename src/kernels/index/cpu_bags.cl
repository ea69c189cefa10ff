// Sums and means of bags on CPUs: a work-item owns `share` bags, and of each all columns, four vectors of them at a
// time, which registers hold. Rows lie anywhere in the table, so they are asked for before they are due. Part of
// bags.cl.
#include "core/prefetch.cl"

enum { BLOCK = 4, AHEAD = 8 };   // vectors of a block; samples

// Vector v of a block. The last one overlaps its neighbour where the table is wide enough; `width` is.
#define COLUMN(v) (whole ? column + (v) * VEC : min(column + (v) * VEC, width - VEC))
#define EACH_COLUMN                                                                                                   \
    _Pragma("unroll") for (uint v = 0; v < BLOCK; ++v)                                                                \
        if (v < vectors)

// Adds rows [begin, end) of `index` up in `vectors` vectors from `column` on, and writes them. Gives how many they are.
static inline long sum_bag(const __global storage_t(X)* table, const __global INDEX* index,
                           const __global storage_t(X)* weight, long begin, long end, __global storage_t(X)* result,
                           const bags_t* p, uint column, const uint vectors, __global int* errors, int operator_code)
{
    const bool whole = vectors == BLOCK, narrow = p->width < VEC;
    const uint width = p->width;
    vector_t(X) sums[BLOCK];
    EACH_COLUMN
        sums[v] = to_vector(X, 0);
    long used = 0;
    for (long i = begin; i < end; ++i) {
        const long at = index[i];
#ifdef X86_PREFETCH
        const __global storage_t(X)* later = table + index[min(i + AHEAD, p->count - 1)] * p->row;
        EACH_COLUMN
            PREFETCH(later + column + v * VEC);
#endif
        if (at < 0 || at >= p->rows) {
            clprim_index_error(errors, operator_code, at, p->rows);
            continue;
        }
        if (at == p->padding)
            continue;
        const __global storage_t(X)* row = table + at * p->row;
#ifdef WEIGHTED
        const compute_t(X) factor = load(X, weight, i);
#else
        const compute_t(X) factor = 1;
#endif
        if (narrow) {
            sums[0] += factor * load_lanes(X, row, 0, width, 0);
        } else {
            EACH_COLUMN
                sums[v] += factor * load_vector(X, row, COLUMN(v));
        }
        ++used;
    }
    EACH_COLUMN
    {
#if MODE == 1
        sums[v] /= (compute_t(X))max(used, 1L);
#endif
        if (narrow)
            store_lanes(X, result, 0, width, sums[v]);
        else
            store_vector(X, result, COLUMN(v), sums[v]);
    }
    return used;
}

#define SUM_BAG(column, vectors)                                                                                      \
    sum_bag(table, index, weight, begin, end, result + bag * p.width, &p, column, vectors, errors, operator_code)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void embedding_bag_shares(const __global storage_t(X)* table, ulong table_offset, const __global INDEX* index,
                          ulong index_offset, const __global BEGIN* offsets, ulong offsets_offset,
                          const __global storage_t(X)* weight, ulong weight_offset, __global storage_t(X)* result,
                          ulong result_offset, __global RESULT* sizes, ulong sizes_offset, bags_t p,
                          __global int* errors, int operator_code, ulong share)
{
    table += table_offset;
    index += index_offset;
    offsets += offsets_offset;
    weight += weight_offset;
    result += result_offset;
    sizes += sizes_offset;
    const long stop = min((long)((get_group_id(0) + 1) * share), p.bags);
    for (long bag = get_group_id(0) * share; bag < stop; ++bag) {
        const long begin = max((long)offsets[bag], 0L);
        const long end = bag + 1 < p.begins ? min((long)offsets[bag + 1], p.count) : p.count;
        uint column = 0;
        long used = 0;
        for (; column + BLOCK * VEC <= p.width; column += BLOCK * VEC)
            used = SUM_BAG(column, BLOCK);
        const uint rest = p.width - column;
        if (rest > 2 * VEC && rest < BLOCK * VEC && p.width >= BLOCK * VEC)
            used = SUM_BAG(p.width - BLOCK * VEC, BLOCK);
        else if (rest > 3 * VEC)
            used = SUM_BAG(column, 3), used = SUM_BAG(column + 3 * VEC, 1);
        else if (rest > 2 * VEC)
            used = SUM_BAG(column, 3);
        else if (rest > VEC)
            used = SUM_BAG(column, 2);
        else if (rest > 0)
            used = SUM_BAG(column, 1);
        sizes[bag] = used;
    }
}
