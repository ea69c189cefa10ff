// Writes one value to every element of a strided tensor. Built with -DD=uint8|uint16|uint32|uint64|raw128 (the size of
// an element is all that matters) and -DINDEX=uint|ulong.
#include "core/dtype.cl"
CLPRIM_PLAIN_DTYPE(raw128, uint4)

typedef struct {
    INDEX shape[8], target[8];
} space_t;

// Work-item n owns element n, counted with axis 0 fastest.
__kernel void fill_strided(__global storage_t(D)* target, ulong target_offset, space_t space, int rank, INDEX count,
                           storage_t(D) value)
{
    target += target_offset;
    INDEX n = get_global_id(0), to = 0;
    if (n >= count)
        return;
    for (int axis = 0; axis < rank; ++axis) {
        const INDEX rest = n / space.shape[axis];
        to += (n - rest * space.shape[axis]) * space.target[axis];
        n = rest;
    }
    target[to] = value;
}
