// Updates through an index that all lines share, on GPUs: the entries are sorted by what they reach (sort/digits.hpp),
// and a work-item joins pieces of `each` of them along a line. An element whose entries lie in one piece is updated
// there; what reaches over an end is kept, and joined in order by join_pieces: the same bits every run, however many
// entries meet in one element.
// Launch: (lines, pieces). -DT=dtype -DREDUCE_sum|product|minimum|maximum|assign; operands: self, source, index.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/index/combine.cl"

#define AHEAD 8   // entries that are under way at once

// numbers: ascending, and -1 for bad ones behind them; order: where each of them was. heads, tails: of each piece and
// line, what belongs to the element of the piece before, and to that of the next.
typedef struct { long self_step, source_step; uint entries, each; } pieces_t;

#define FIND_PIECE                                                            \
    const index_t line = get_global_id(0);                                    \
    const uint piece = get_global_id(1), begin = piece * p.each;              \
    if (line >= (index_t)lines.numel || begin >= p.entries)                   \
        return;                                                               \
    offset_t o[OPERANDS];                                                     \
    geometry_offsets(lines, line, o);                                         \
    self += self_offset + o[0];                                               \
    numbers += numbers_offset;                                                \
    heads += heads_offset + line;                                             \
    tails += tails_offset + line;

__kernel void accumulate_pieces(__global storage_t(T)* self, ulong self_offset, const __global storage_t(T)* source,
                                ulong source_offset, const __global int* restrict numbers, ulong numbers_offset,
                                const __global int* restrict order, ulong order_offset,
                                __global compute_t(T)* heads, ulong heads_offset, __global compute_t(T)* tails,
                                ulong tails_offset, pieces_t p, geometry_t lines)
{
    FIND_PIECE
    source += source_offset + o[1];
    order += order_offset;
    const uint end = min(begin + p.each, p.entries);
    int number = numbers[begin];
    bool head = begin > 0 && numbers[begin - 1] == number;
    bool empty = true;
    compute_t(T) value = (compute_t(T))0;
    for (uint first = begin; first < end; first += AHEAD) {
        int next[AHEAD];
        compute_t(T) update[AHEAD];
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e)
            next[e] = numbers[min(first + e, end - 1)];
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e)
            update[e] = load(T, source, order[min(first + e, end - 1)] * p.source_step);
#pragma unroll
        for (uint e = 0; e < AHEAD; ++e) {
            if (first + e >= end)
                break;
            if (next[e] != number) {
                if (head)
                    heads[(ulong)piece * lines.numel] = value;
                else
                    store(T, self, number * p.self_step, combine(load(T, self, number * p.self_step), value));
                head = false;
                empty = true;
                number = next[e];
            }
            value = empty ? update[e] : combine(value, update[e]);
            empty = false;
        }
    }
    if (number < 0)
        return;
    if (head)
        heads[(ulong)piece * lines.numel] = value;
    else if (end < p.entries && numbers[end] == number)
        tails[(ulong)piece * lines.numel] = value;
    else
        store(T, self, number * p.self_step, combine(load(T, self, number * p.self_step), value));
}

__kernel void join_pieces(__global storage_t(T)* self, ulong self_offset, const __global int* restrict numbers,
                          ulong numbers_offset, const __global compute_t(T)* heads, ulong heads_offset,
                          const __global compute_t(T)* tails, ulong tails_offset, pieces_t p, geometry_t lines)
{
    FIND_PIECE
    const uint end = begin + p.each;
    if (end >= p.entries)
        return;
    const int number = numbers[end - 1];
    if (number < 0 || numbers[end] != number || (begin > 0 && numbers[begin - 1] == number))
        return;   // nothing reaches over the end, or it began before
    uint last = piece + 1;
    for (uint high = (p.entries - 1) / p.each; last < high;) {
        const uint guess = high - (high - last) / 2;
        if (numbers[guess * p.each] == number)
            last = guess;
        else
            high = guess - 1;
    }
    compute_t(T) value = combine(load(T, self, number * p.self_step), tails[(ulong)piece * lines.numel]);
    for (uint first = piece + 1; first <= last; first += 2 * AHEAD) {
        compute_t(T) update[2 * AHEAD];
#pragma unroll
        for (uint e = 0; e < 2 * AHEAD; ++e)
            update[e] = heads[(ulong)min(first + e, last) * lines.numel];
#pragma unroll
        for (uint e = 0; e < 2 * AHEAD; ++e)
            if (first + e <= last)
                value = combine(value, update[e]);
    }
    store(T, self, number * p.self_step, value);
}
