// Elements as they are that change their order on CPUs. Built with -DELEMENT=uchar|ushort|uint|ulong,
// -DINDEX=uint|ulong, and one of
// -DLANES=8|16: transposition (copy_transposed of copy.cl). Square tiles of LANES rows go through registers, whose
// halves are interleaved until rows are columns.
// -DCHANNELS=2|3|4: so many elements of axis 1 come to lie side by side (interleave), or did (deinterleave).
#include "core/dtype.cl"
#define AXES 8
#include "kernels/copy/space.cl"

#ifdef CHANNELS
// Work-item (x, z) owns CHUNK elements of axis 0, and of the axes from 2 the one that z counts.
#define CHUNK 4096
#define CHANNELS_KERNEL(name, TO, FROM)                                                                                \
    __attribute__((reqd_work_group_size(1, 1, 1)))                                                                     \
    __kernel void name(const __global ELEMENT* restrict source, ulong source_offset,                                   \
                       __global ELEMENT* restrict target, ulong target_offset, space_t space, int rank)                \
    {                                                                                                                  \
        source += source_offset;                                                                                       \
        target += target_offset;                                                                                       \
        INDEX n = get_global_id(2), from = 0, to = 0;                                                                  \
        ADD_AXES_FROM_2                                                                                                \
        source += from;                                                                                                \
        target += to;                                                                                                  \
        const INDEX first = get_global_id(0) * CHUNK, last = min(first + CHUNK, space.shape[0]);                       \
        for (INDEX i = first; i < last; ++i) {                                                                         \
            _Pragma("unroll") for (int c = 0; c < CHANNELS; ++c)                                                       \
                target[TO] = source[FROM];                                                                             \
        }                                                                                                              \
    }
CHANNELS_KERNEL(interleave, i * CHANNELS + c, c * space.source[1] + i)
CHANNELS_KERNEL(deinterleave, c * space.target[1] + i, i * CHANNELS + c)
#else
typedef CLPRIM_CAT(ELEMENT, LANES) row_t;
typedef row_t __attribute__((aligned(sizeof(ELEMENT)))) anywhere_t;

#if LANES == 16
#define STAGES 4
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#else
#define STAGES 3
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LAST_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

static inline void transpose(const __global ELEMENT* from, INDEX from_stride, __global ELEMENT* to, INDEX to_stride)
{
    row_t rows[LANES], mixed[LANES];
    #pragma unroll
    for (int i = 0; i < LANES; ++i)
        rows[i] = *(const __global anywhere_t*)(from + i * from_stride);
    #pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
        #pragma unroll
        for (int i = 0; i < LANES / 2; ++i) {
            mixed[2 * i] = FIRST_HALVES(rows[i], rows[i + LANES / 2]);
            mixed[2 * i + 1] = LAST_HALVES(rows[i], rows[i + LANES / 2]);
        }
        #pragma unroll
        for (int i = 0; i < LANES; ++i)
            rows[i] = mixed[i];
    }
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
#endif
