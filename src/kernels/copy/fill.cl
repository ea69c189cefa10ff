// Writes one value to every element of a strided tensor. Built with -DD=uint8|uint16|uint32|uint64|raw128 (the size of
// an element is all that matters), -DINDEX=uint|ulong and, as in copy.cl, -DAXES.
#include "core/dtype.cl"
CLPRIM_PLAIN_DTYPE(raw128, uint4)

typedef struct {
    INDEX shape[8], target[8], magic[8], shift[8];
} space_t;

#include "kernels/copy/divided.cl"
// Written out per axis as in copy.cl.
#define ADD_AXIS(axis)                                                                                      \
    if (axis + 1 == AXES) {                                                                                 \
        to += n * space.target[axis];                                                                       \
    } else if (axis < AXES && axis < rank) {                                                                \
        const INDEX rest = DIVIDED(n, axis);                                                                \
        to += (n - rest * space.shape[axis]) * space.target[axis];                                          \
        n = rest;                                                                                           \
    }

#ifdef CLPRIM_DEVICE_CPU
// Work-item n owns element n, counted with axis 0 fastest.
__kernel void fill_strided(__global storage_t(D)* target, ulong target_offset, space_t space, int rank, INDEX count,
                           storage_t(D) value)
{
    target += target_offset;
    INDEX n = get_global_id(0), to = 0;
    if (n >= count)
        return;
    ADD_AXIS(0) ADD_AXIS(1) ADD_AXIS(2) ADD_AXIS(3) ADD_AXIS(4) ADD_AXIS(5) ADD_AXIS(6) ADD_AXIS(7)
    target[to] = value;
}
#else
// Work-item (x, y) owns FILLED elements of axis 0, a work-group's width apart, of the row that y counts over the further
// axes: finding a row takes as long as writing several elements.
#define FILLED 4
__kernel void fill_strided(__global storage_t(D)* target, ulong target_offset, space_t space, int rank, INDEX rows,
                           storage_t(D) value)
{
    const INDEX step = get_local_size(0), x = (INDEX)get_group_id(0) * (FILLED * step) + (INDEX)get_local_id(0);
    INDEX n = get_global_id(1), to = x * space.target[0];
    if (n >= rows)
        return;
    ADD_AXIS(1) ADD_AXIS(2) ADD_AXIS(3) ADD_AXIS(4) ADD_AXIS(5) ADD_AXIS(6) ADD_AXIS(7)
    target += target_offset + to;
    for (int e = 0; e < FILLED; ++e)
        if (x + e * step < space.shape[0])
            target[e * (step * space.target[0])] = value;
}
#endif

// The same without gaps, for CPUs: work-item n owns CHUNK elements from n * CHUNK on, which its loop writes as vectors.
#define CHUNK 16384
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void fill_dense(__global storage_t(D)* target, ulong target_offset, ulong count, storage_t(D) value)
{
    target += target_offset;
    const ulong first = get_global_id(0) * (ulong)CHUNK, last = min(first + CHUNK, count);
    for (ulong i = first; i < last; ++i)
        target[i] = value;
}
