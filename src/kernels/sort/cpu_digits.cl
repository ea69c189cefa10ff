// Long rows on CPUs, sorted by the digits of their keys from the lowest on, all threads at one digit after the other; a
// digit that all elements of a row share is left out. Each row is cut into blocks, a work-item each, which counts its
// digits and then knows from all counts of the row where its own items belong: stable, and the same order every run.
// Items change between two buffers with each digit that is not left out. Launch: (blocks, rows).
//   -DT=dtype -DKEY_... [-DWIDE] [-DDESCENDING]
// rows: operands input, values, indices, each at the first element of its row.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/sort/items.cl"

#ifdef WIDE
typedef ulong digits_t;
#define DIGITS_OF(item) ((item).x)
#else
typedef uint digits_t;
#define DIGITS_OF(item) ((uint)((item) >> 32))
#endif
#define DIGIT(item, d) ((uchar)(DIGITS_OF(item) >> (8 * (d))))

#define FIND_BLOCK                                                                                                    \
    const ulong block = get_global_id(0), blocks = get_global_size(0), row = get_global_id(1);                        \
    const ulong part = (n + blocks - 1) / blocks, begin = min(block * part, n), end = min(begin + part, n);
#define FIND_ROW                                                                                                      \
    offset_t o[OPERANDS];                                                                                             \
    geometry_offsets(rows, (index_t)row, o);                                                                          \
    input += input_offset + o[0];

// Bits in which keys of a row differ, from what its blocks found.
static inline digits_t differing(const __global ulong* differences, ulong row, ulong blocks)
{
    ulong all = 0;
    for (ulong b = 0; b < blocks; ++b)
        all |= differences[row * blocks + b];
    return (digits_t)all;
}
// How many of the first `count` digits are not left out.
static inline uint moved(digits_t differing, uint count)
{
    uint result = 0;
    for (uint d = 0; d < count; ++d)
        result += (uchar)(differing >> (8 * d)) != 0;
    return result;
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void begin_digits(const __global storage_t(T)* input, ulong input_offset, long input_stride,
                           __global item_t* items, ulong items_offset, __global ulong* differences,
                           ulong differences_offset, ulong n, geometry_t rows)
{
    FIND_BLOCK
    FIND_ROW
    items += items_offset + row * n;
    const digits_t first = DIGITS_OF(item_of(load(T, input, 0), 0));
    digits_t all = 0;
    for (ulong i = begin; i < end; ++i) {
        const item_t item = item_of(load(T, input, (long)i * input_stride), i);
        all |= DIGITS_OF(item) ^ first;
        items[i] = item;
    }
    differences[differences_offset + row * blocks + block] = all;
}

#define SORTING                                                                                                       \
    __global item_t *items, ulong items_offset, __global item_t *other, ulong other_offset,                           \
        const __global ulong *differences, ulong differences_offset, __global uint *counts, ulong counts_offset,      \
        ulong n, uint digit
// The items before this digit, or nothing is to be done.
#define FIND_ITEMS                                                                                                    \
    FIND_BLOCK                                                                                                        \
    const digits_t bits = differing(differences + differences_offset, row, blocks);                                   \
    if ((uchar)(bits >> (8 * digit)) == 0)                                                                            \
        return;                                                                                                       \
    items += items_offset + row * n;                                                                                  \
    other += other_offset + row * n;                                                                                  \
    const bool swapped = moved(bits, digit) & 1;                                                                      \
    const __global item_t* from = swapped ? other : items;                                                            \
    counts += counts_offset + row * blocks * 256;

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void count_digits(SORTING)
{
    FIND_ITEMS
    uint own[256] = {0};
    for (ulong i = begin; i < end; ++i)
        ++own[DIGIT(from[i], digit)];
    for (uint v = 0; v < 256; ++v)
        counts[block * 256 + v] = own[v];
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void move_by_digit(SORTING)
{
    FIND_ITEMS
    __global item_t* to = swapped ? items : other;
    uint next[256], total = 0;
    for (uint v = 0; v < 256; ++v) {
        uint before = 0, all = 0;
        for (ulong b = 0; b < blocks; ++b) {
            const uint count = counts[b * 256 + v];
            before += b < block ? count : 0;
            all += count;
        }
        next[v] = total + before;
        total += all;
    }
    for (ulong i = begin; i < end; ++i) {
        const item_t item = from[i];
        to[next[DIGIT(item, digit)]++] = item;
    }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void end_digits(const __global item_t* items, ulong items_offset, const __global item_t* other,
                         ulong other_offset, const __global ulong* differences, ulong differences_offset,
                         const __global storage_t(T)* input, ulong input_offset, long input_stride GIVEN, ulong n,
                         geometry_t rows)
{
    FIND_BLOCK
    FIND_ROW
    const uint swaps = moved(differing(differences + differences_offset, row, blocks), sizeof(digits_t));
    const __global item_t* from = (swaps & 1 ? other + other_offset : items + items_offset) + row * n;
    for (ulong i = begin; i < end; ++i) {
        const long at = POSITION(from[i]);
        values[values_offset + o[1] + (long)i * values_stride] = input[at * input_stride];
        indices[indices_offset + o[2] + (long)i * indices_stride] = at;
    }
}
