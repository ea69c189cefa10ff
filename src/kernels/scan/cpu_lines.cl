// Cumulative operators (state.cl) on CPUs along lines that are short or lie side by side. A line runs along the scanned
// axis; lines: operands input, out, indices.
#include "core/dtype.cl"
#include "kernels/index/geometry.cl"
#include "kernels/scan/state.cl"

#define LOCATE(line)                                                                                                   \
    offset_t o[OPERANDS];                                                                                              \
    geometry_offsets(lines, (index_t)(line), o);                                                                       \
    input += input_offset + o[0];                                                                                      \
    out += out_offset + o[1];                                                                                          \
    indices += indices_offset + o[2];

// One work-item walks elements [begin, end) of a line, on from `s` if there is one.
static inline void walk(TENSORS, long begin, long end, state_t s, bool carried)
{
    for (long i = begin; i < end; ++i) {
        state_t element = state_of(WIDEN(load(T, input, i * input_stride)), i);
        s = carried || i > begin ? combine(s, element) : element;
        emit(out, indices, i * out_stride, i * indices_stride, s);
    }
}

__kernel void scan_lines(TENSORS, long n, geometry_t lines)
{
    ulong line = get_global_id(0);
    if (line >= (ulong)lines.numel)
        return;
    LOCATE(line)
    state_t none;
    walk(input, 0, input_stride, out, 0, out_stride, indices, 0, indices_stride, 0, n, none, false);
}

#define TOTALS ((__global state_t*)(words + words_offset))   // one state per chunk of each line

__kernel void chunk_totals(TENSORS, __global ulong* words, ulong words_offset, long n, long chunk, long chunks,
                           geometry_t lines)
{
    ulong line = get_global_id(1);
    long c = get_global_id(0);
    if (c >= chunks)
        return;
    LOCATE(line)
    long begin = c * chunk, end = min(begin + chunk, n);
    state_t s = state_of(WIDEN(load(T, input, begin * input_stride)), begin);
    for (long i = begin + 1; i < end; ++i)
        s = combine(s, state_of(WIDEN(load(T, input, i * input_stride)), i));
    TOTALS[line * chunks + c] = s;
}

#include "kernels/scan/totals.cl"

__kernel void scan_chunks(TENSORS, const __global ulong* words, ulong words_offset, long n, long chunk,
                          long chunks, geometry_t lines)
{
    ulong line = get_global_id(1);
    long c = get_global_id(0);
    if (c >= chunks)
        return;
    LOCATE(line)
    state_t carry;
    if (c > 0)
        carry = ((const __global state_t*)(words + words_offset))[line * chunks + c - 1];
    long begin = c * chunk;
    walk(input, 0, input_stride, out, 0, out_stride, indices, 0, indices_stride, begin, min(begin + chunk, n), carry,
         c > 0);
}
