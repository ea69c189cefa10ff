// Transposition of elements as they are on CPUs (copy_transposed of copy.cl): square tiles of LANES rows go through
// registers. -DELEMENT=uchar|ushort|uint|ulong, -DLANES=8|16, -DINDEX=uint|ulong.
#include "core/dtype.cl"
#define AXES 8
#include "kernels/copy/space.cl"
#include "kernels/copy/cpu_tile.cl"

static inline void transpose(const __global ELEMENT* from, INDEX from_stride, __global ELEMENT* to, INDEX to_stride)
{
    row_t rows[LANES];
    #pragma unroll
    for (int i = 0; i < LANES; ++i)
        rows[i] = *(const __global anywhere_t*)(from + i * from_stride);
    transpose_tile(rows);
    #pragma unroll
    for (int i = 0; i < LANES; ++i)
        *(__global anywhere_t*)(to + i * to_stride) = rows[i];
}

// Work-item (x, y, z) owns BLOCK elements of axes 0 and 1, and of the further axes the one that z counts.
#define BLOCK 64
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void copy_transposed(const __global ELEMENT* source, ulong source_offset, __global ELEMENT* target,
                               ulong target_offset, space_t space, int rank)
{
    source += source_offset;
    target += target_offset;
    INDEX n = get_global_id(2), from = 0, to = 0;
    ADD_AXES_FROM_2
    const INDEX x0 = get_global_id(0) * BLOCK, x1 = min(x0 + BLOCK, space.shape[0]);
    const INDEX y0 = get_global_id(1) * BLOCK, y1 = min(y0 + BLOCK, space.shape[1]);
    const INDEX across = space.source[0], down = space.target[1];
    const INDEX whole_x = x0 + (x1 - x0) / LANES * LANES, whole_y = y0 + (y1 - y0) / LANES * LANES;
    source += from;
    target += to;
    for (INDEX y = y0; y < whole_y; y += LANES) {
        for (INDEX x = x0; x < whole_x; x += LANES)
            transpose(source + x * across + y, across, target + y * down + x, down);
    }
    for (INDEX y = y0; y < y1; ++y) {
        for (INDEX x = y < whole_y ? whole_x : x0; x < x1; ++x)
            target[y * down + x] = source[x * across + y];
    }
}
