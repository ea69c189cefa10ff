// Triangles of matrices on CPUs: rows whose elements lie together are bytes of which some are kept and the rest become
// zero. A work-item owns `each` rows.
#include "core/dtype.cl"

typedef uint16 __attribute__((aligned(1))) line_t;
typedef uint4 __attribute__((aligned(1))) words_t;
typedef uint __attribute__((aligned(1))) word_t;

// Runs of at least a vector end with one that overlaps the one before.
#define RUN(type, count, write)                                                                                 \
    if ((count) >= (long)sizeof(type)) {                                                                        \
        for (long at = 0; at + (long)sizeof(type) <= (count); at += sizeof(type))                               \
            write(type, at)                                                                                     \
        write(type, (count) - (long)sizeof(type))                                                               \
        return;                                                                                                 \
    }
#define COPY(type, at) *(__global type*)(to + (at)) = *(const __global type*)(from + (at));
#define ZERO(type, at) *(__global type*)(to + (at)) = 0;

static inline void copy_bytes(__global uchar* to, const __global uchar* from, long count)
{
    RUN(line_t, count, COPY)
    RUN(words_t, count, COPY)
    RUN(word_t, count, COPY)
    for (long i = 0; i < count; ++i)
        to[i] = from[i];
}

static inline void zero_bytes(__global uchar* to, long count)
{
    RUN(line_t, count, ZERO)
    RUN(words_t, count, ZERO)
    RUN(word_t, count, ZERO)
    for (long i = 0; i < count; ++i)
        to[i] = 0;
}

// Bytes between rows and between matrices.
typedef struct { long out_row, out_matrix, row, matrix, rows, columns, all, each, edge, element; } triangle_t;

__kernel void triangle(__global uchar* out, ulong out_offset, const __global uchar* input, ulong input_offset,
                       triangle_t p, int upper)
{
    const long begin = get_global_id(0) * p.each, end = min(p.all, begin + p.each);
    out += out_offset;
    input += input_offset;
    long matrix = begin / p.rows, row = begin - matrix * p.rows;
    for (long i = begin; i < end; ++i, ++row) {
        if (row == p.rows) {
            row = 0;
            ++matrix;
        }
        // Kept: elements from row + edge on if `upper`, else up to there.
        const long place = clamp(row + p.edge + (upper ? 0 : 1), 0L, p.columns) * p.element;
        const long all = p.columns * p.element, first = upper ? place : 0, last = upper ? all : place;
        __global uchar* to = out + matrix * p.out_matrix + row * p.out_row;
        const __global uchar* from = input + matrix * p.matrix + row * p.row;
        zero_bytes(to, first);
        if (to != from)
            copy_bytes(to + first, from + first, last - first);
        zero_bytes(to + last, all - last);
    }
}
