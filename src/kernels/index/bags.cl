// Rows of a table, looked up and combined bag by bag: a work-item owns VECTORS vectors of neighbours of a bag.
// Launch: (blocks of columns, bags). -DX: dtype; -DINDEX, -DBEGIN: of indices and of offsets; -DRESULT: of sizes and
// places; -DMODE=0 sum, 1 mean, 2 maximum, of vectors of one; -DWEIGHTED: samples have weights; -DVEC, -DVECTORS.
#include "core/dtype.cl"
#include "core/errors.cl"
#include "core/vector.cl"

typedef struct {
    ulong row;                // distance of the table's rows
    long rows, count, bags, begins, padding;   // begins: elements of `offsets`
    uint width;
} bags_t;

#define SPAN (VEC * VECTORS)

__kernel void embedding_bag(const __global storage_t(X)* table, ulong table_offset, const __global INDEX* index,
                            ulong index_offset, const __global BEGIN* offsets, ulong offsets_offset,
                            const __global storage_t(X)* weight, ulong weight_offset, __global storage_t(X)* result,
                            ulong result_offset, __global RESULT* sizes, ulong sizes_offset, __global RESULT* places,
                            ulong places_offset, bags_t p, __global int* errors, int operator_code)
{
    const long bag = get_global_id(1);
    const uint column = get_global_id(0) * SPAN;
    if (bag >= p.bags || column >= p.width)
        return;
    table += table_offset;
    index += index_offset;
    offsets += offsets_offset;
    weight += weight_offset;
    const long begin = max((long)offsets[bag], 0L);
    const long end = bag + 1 < p.begins ? min((long)offsets[bag + 1], p.count) : p.count;

    vector_t(X) sums[VECTORS];
#if MODE == 2
    RESULT first[VECTORS];
#endif
    for (int v = 0; v < VECTORS; ++v)
        sums[v] = to_vector(X, 0);
    long used = 0;
    for (long i = begin; i < end; ++i) {
        const long at = index[i];
        if (at < 0 || at >= p.rows) {
            clprim_index_error(errors, operator_code, at, p.rows);
            continue;
        }
        if (at == p.padding)
            continue;
        const __global storage_t(X)* row = table + at * p.row;
#ifdef WEIGHTED
        const compute_t(X) factor = load(X, weight, i);
#endif
        for (int v = 0; v < VECTORS && column + v * VEC < p.width; ++v) {
            const uint from = column + v * VEC, n = min(p.width - from, (uint)VEC);
            const vector_t(X) values = load_part(X, row, from, n, 0);
#if MODE == 2
            // As PyTorch's CPU compares: a NaN counts only where it comes first.
            if (used == 0 || values > sums[v])
                sums[v] = values, first[v] = at;
#elif defined(WEIGHTED)
            sums[v] += factor * values;
#else
            sums[v] += values;
#endif
        }
        ++used;
    }
    result += result_offset + bag * p.width;
    for (int v = 0; v < VECTORS && column + v * VEC < p.width; ++v) {
        const uint to = column + v * VEC, n = min(p.width - to, (uint)VEC);
#if MODE == 1
        sums[v] /= (compute_t(X))max(used, 1L);
#endif
        store_part(X, result, to, n, sums[v]);
#if MODE == 2
        places[places_offset + bag * p.width + to] = used ? first[v] : -1;
#endif
    }
    if (column == 0)
        sizes[sizes_offset + bag] = used;
}

#if defined(CLPRIM_DEVICE_CPU) && VEC == 16
#include "kernels/index/cpu_bags.cl"
#endif
