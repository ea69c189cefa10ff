// Long rows: merging of sorted runs of items, and turning items back into elements.
// [-DWIDE] -DCHUNK=n, on GPUs -DGROUP=n; for finish also -DT=dtype, rows: operands input, values, indices.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"

// How many of the first `diagonal` items of two merged runs come from the left one.
#define FROM_LEFT(from_left, left, left_count, right, right_count, diagonal)                                           \
    {                                                                                                                  \
        length_t low = (diagonal) > (right_count) ? (diagonal) - (right_count) : 0,                                    \
                 high = min((diagonal), (left_count));                                                                 \
        while (low < high) {                                                                                           \
            const length_t guess = (low + high) / 2;                                                                   \
            if (before((left)[guess], (right)[(diagonal) - 1 - guess]))                                                \
                low = guess + 1;                                                                                       \
            else                                                                                                       \
                high = guess;                                                                                          \
        }                                                                                                              \
        from_left = low;                                                                                               \
    }

// Merges neighbouring runs of `width` items in every row of n.
#ifdef GROUP
// A work-group owns GROUP * CHUNK consecutive places of the result, which lie within two runs, and merges their items
// in local memory, CHUNK by each work-item.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void merge_runs(const __global item_t* items, ulong items_offset, __global item_t* merged,
                         ulong merged_offset, ulong n, ulong width)
{
    typedef ulong length_t;
    __local item_t tile[GROUP * CHUNK];
    __local ulong bounds[2];
    const ulong row = get_global_id(1), place = (ulong)get_group_id(0) * (GROUP * CHUNK);
    const uint id = get_local_id(0);
    items += items_offset + row * n;
    merged += merged_offset + row * n + place;
    const ulong start = place / (2 * width) * (2 * width);
    const ulong middle = min(start + width, n), end = min(start + 2 * width, n);
    const ulong left_count = middle - start, right_count = end - middle;
    const uint count = (uint)min((ulong)(GROUP * CHUNK), end - place);
    if (id < 2) {
        const ulong diagonal = place - start + (id ? count : 0);
        FROM_LEFT(bounds[id], items + start, left_count, items + middle, right_count, diagonal)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint lefts = (uint)(bounds[1] - bounds[0]), rights = count - lefts;
    const __global item_t* left = items + start + bounds[0];
    const __global item_t* right = items + middle + (place - start - bounds[0]);
    for (uint t = id; t < count; t += GROUP)
        tile[t] = t < lefts ? left[t] : right[t - lefts];
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint first = min(id * CHUNK, count);
    const __local item_t* other = tile + lefts;
    uint i;
    {
        typedef uint length_t;
        FROM_LEFT(i, tile, lefts, other, rights, first)
    }
    uint j = first - i;
    item_t own[CHUNK];
#pragma unroll
    for (int k = 0; k < CHUNK; ++k) {
        const item_t a = tile[min(i, count - 1)], b = tile[min(lefts + j, count - 1)];
        const bool take_left = j >= rights || (i < lefts && before(a, b));
        own[k] = take_left ? a : b;
        i += take_left;
        j += !take_left;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int k = 0; k < CHUNK; ++k)
        if (first + k < count)
            tile[first + k] = own[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = id; t < count; t += GROUP)
        merged[t] = tile[t];
}
#else
// A work-item owns CHUNK consecutive places of the result.
__kernel void merge_runs(const __global item_t* items, ulong items_offset, __global item_t* merged,
                         ulong merged_offset, ulong n, ulong width)
{
    typedef ulong length_t;
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
    ulong i;
    FROM_LEFT(i, left, left_count, right, right_count, place - start)
    ulong j = place - start - i;
    const ulong stop = min(place + CHUNK, end);
    for (ulong p = place; p < stop; ++p) {
        bool take_left = j >= right_count || (i < left_count && before(left[i], right[j]));
        merged[p] = take_left ? left[i] : right[j];
        i += take_left;
        j += !take_left;
    }
}
#endif

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
