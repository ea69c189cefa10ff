// Long rows: merging of sorted runs of items, and turning items back into elements.
// [-DWIDE] -DCHUNK=n; for finish also -DT=dtype, rows: operands input, values, indices.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"

// Merges neighbouring runs of `width` items in every row of n. A work-item owns CHUNK consecutive places of the result:
// the search along their diagonal says how many of the items before them come from the left run.
__kernel void merge_runs(const __global item_t* items, ulong items_offset, __global item_t* merged,
                         ulong merged_offset, ulong n, ulong width)
{
    const ulong row = get_global_id(1);
    const ulong place = (ulong)get_global_id(0) * CHUNK;
    if (place >= n)
        return;
    items += items_offset + row * n;
    merged += merged_offset + row * n;
    const ulong start = place / (2 * width) * (2 * width);
    const ulong middle = min(start + width, n), end = min(start + 2 * width, n);
    const __global item_t* left = items + start;
    const __global item_t* right = items + middle;
    const ulong left_count = middle - start, right_count = end - middle;

    const ulong diagonal = place - start;
    ulong low = diagonal > right_count ? diagonal - right_count : 0, high = min(diagonal, left_count);
    while (low < high) {
        ulong guess = (low + high) / 2;
        if (before(left[guess], right[diagonal - 1 - guess]))
            low = guess + 1;
        else
            high = guess;
    }
    ulong i = low, j = diagonal - low;
    const ulong stop = min(place + CHUNK, end);
    for (ulong p = place; p < stop; ++p) {
        bool take_left = j >= right_count || (i < left_count && before(left[i], right[j]));
        merged[p] = take_left ? left[i] : right[j];
        i += take_left;
        j += !take_left;
    }
}

#ifdef T
__kernel void finish(const __global item_t* items, ulong items_offset, const __global storage_t(T)* input,
                     ulong input_offset, long input_stride, __global storage_t(T)* values, ulong values_offset,
                     long values_stride, __global long* indices, ulong indices_offset, long indices_stride, ulong n,
                     ulong keep, geometry_t rows)
{
    const ulong row = get_global_id(1), place = get_global_id(0);
    if (place >= keep)
        return;
    offset_t o[OPERANDS];
    geometry_offsets(rows, (index_t)row, o);
    ulong from = POSITION(items[items_offset + row * n + place]);
    values[values_offset + o[1] + place * values_stride] = input[input_offset + o[0] + (long)from * input_stride];
    indices[indices_offset + o[2] + place * indices_stride] = (long)from;
}
#endif
