// Joins up to 32 tensors on CPUs: rows of each, which have no gaps, become parts of rows of `width` elements.
// A work-item copies CHUNK elements at most of a tensor. Launch: (chunks, tensors). -DELEMENT=raw type.
typedef struct { ulong begin[32], size[32], apart[32]; } joined_t;   // of each tensor's part of a row; between its rows

#define TENSOR(n) const __global ELEMENT *x##n, ulong x##n##_offset
#define FOUR(a, b, c, d) TENSOR(a), TENSOR(b), TENSOR(c), TENSOR(d)
#define CASE(n) case n: x = x##n + x##n##_offset; break;
#define FOUR_CASES(a, b, c, d) CASE(a) CASE(b) CASE(c) CASE(d)

#define RUN ELEMENT
#include "kernels/copy/run.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void concat(FOUR(0, 1, 2, 3), FOUR(4, 5, 6, 7), FOUR(8, 9, 10, 11), FOUR(12, 13, 14, 15), FOUR(16, 17, 18, 19),
                     FOUR(20, 21, 22, 23), FOUR(24, 25, 26, 27), FOUR(28, 29, 30, 31), __global ELEMENT* y,
                     ulong y_offset, joined_t joined, ulong rows, ulong width)
{
    const uint tensor = get_global_id(1);
    const ulong size = joined.size[tensor], first = get_global_id(0) * CHUNK, end = min(first + CHUNK, rows * size);
    if (first >= end)
        return;
    const __global ELEMENT* x;
    switch (tensor) {
    FOUR_CASES(0, 1, 2, 3) FOUR_CASES(4, 5, 6, 7) FOUR_CASES(8, 9, 10, 11) FOUR_CASES(12, 13, 14, 15)
    FOUR_CASES(16, 17, 18, 19) FOUR_CASES(20, 21, 22, 23) FOUR_CASES(24, 25, 26, 27) FOUR_CASES(28, 29, 30, 31)
    default: return;
    }
    y += y_offset + joined.begin[tensor];
    ulong row = first / size, column = first - row * size;
    for (ulong i = first; i < end; ++row, column = 0) {
        const ulong count = min(size - column, end - i);
        copy_run(y + row * width + column, x + row * joined.apart[tensor] + column, count);
        i += count;
    }
}
