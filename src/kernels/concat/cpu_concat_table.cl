// Joins any number of tensors of one buffer on CPUs: rows of each, which have no gaps, become parts of rows of `width`
// elements. Launch: (blocks of `tensors`, blocks of `each` rows). -DELEMENT=raw type.
#include "core/dtype.cl"

// Of each tensor, in elements: where it begins in the buffer, its part of a row, and how far its rows lie apart.
typedef struct { ulong source, begin, size, apart; } part_t;

#define RUN ELEMENT
#include "kernels/copy/run.cl"

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void concat(const __global ELEMENT* x, ulong x_offset, __global ELEMENT* y, ulong y_offset,
                     const __global part_t* parts, ulong parts_offset, ulong count, ulong tensors, ulong rows,
                     ulong each, ulong width)
{
    x += x_offset;
    parts = (const __global part_t*)((const __global long*)parts + parts_offset);
    const ulong first = get_global_id(0) * tensors, last = min(count, first + tensors);
    const ulong begin = get_global_id(1) * each, end = min(rows, begin + each);
    for (ulong tensor = first; tensor < last; ++tensor) {
        const part_t part = parts[tensor];
        __global ELEMENT* to = y + y_offset + part.begin;
        for (ulong row = begin; row < end; ++row)
            copy_run(to + row * width, x + part.source + row * part.apart, part.size);
    }
}
