// Few channels on CPUs: elements as they are that come to lie side by side (interleave), or did (deinterleave).
// -DCHANNELS=2|3|4: elements of axis 1; -DELEMENT=uchar|ushort|uint|ulong, -DLANES=8|16: elements of a vector;
// -DINDEX=uint|ulong.
#include "core/dtype.cl"
#define AXES 8
#include "kernels/copy/space.cl"

typedef CLPRIM_CAT(ELEMENT, LANES) lanes_t;
typedef lanes_t __attribute__((aligned(sizeof(ELEMENT)))) anywhere_t;

// All lanes of vector k out of two others, SOURCE(q) is where element q = k LANES + lane is taken from.
#if LANES == 16
#define SHUFFLE(a, b, SOURCE, k)                                                                                      \
    __builtin_shufflevector(a, b, SOURCE(k, 0), SOURCE(k, 1), SOURCE(k, 2), SOURCE(k, 3), SOURCE(k, 4), SOURCE(k, 5),  \
                            SOURCE(k, 6), SOURCE(k, 7), SOURCE(k, 8), SOURCE(k, 9), SOURCE(k, 10), SOURCE(k, 11),      \
                            SOURCE(k, 12), SOURCE(k, 13), SOURCE(k, 14), SOURCE(k, 15))
#else
#define SHUFFLE(a, b, SOURCE, k)                                                                                      \
    __builtin_shufflevector(a, b, SOURCE(k, 0), SOURCE(k, 1), SOURCE(k, 2), SOURCE(k, 3), SOURCE(k, 4), SOURCE(k, 5),  \
                            SOURCE(k, 6), SOURCE(k, 7))
#endif

// Vector k of pixels out of vectors of channels 0 and 1, of 2 and 3, and of the two results.
#define PIXEL(k, l) ((k * LANES + l) / CHANNELS)
#define CHANNEL(k, l) ((k * LANES + l) % CHANNELS)
#define FROM_PLANES(k, l) (CHANNEL(k, l) % 2 * LANES + PIXEL(k, l))
#define OF_PLANES(k, l) (CHANNEL(k, l) / 2 * LANES + l)
// Vector k of planes out of the first two vectors of pixels, of the others, and of the two results.
#define PLACE(k, l) (CHANNELS * l + k)
#define FROM_PIXELS(k, l) (PLACE(k, l) % (2 * LANES))
#define OF_PIXELS(k, l) (PLACE(k, l) / (2 * LANES) * LANES + l)
#if CHANNELS == 2
#define OUT_OF(v, FROM, OF, k) SHUFFLE(v[0], v[1], FROM, k)
#else
#define OUT_OF(v, FROM, OF, k)                                                                                        \
    SHUFFLE(SHUFFLE(v[0], v[1], FROM, k), SHUFFLE(v[2], v[CHANNELS - 1], FROM, k), OF, k)
#endif

// Work-item (x, z) owns CHUNK elements of axis 0, and of the axes from 2 the one that z counts. *_AT(i, c) is the place
// of element i of channel c, *_RUN(i, k) that of the k-th vector of LANES elements of all channels from i.
#define CHUNK 4096
#define CHANNELS_KERNEL(name, TO_AT, TO_RUN, FROM_AT, FROM_RUN, FROM, OF)                                              \
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
        INDEX i = first;                                                                                               \
        for (; i + LANES <= last; i += LANES) {                                                                        \
            lanes_t v[CHANNELS];                                                                                       \
            _Pragma("unroll") for (int k = 0; k < CHANNELS; ++k)                                                       \
                v[k] = *(const __global anywhere_t*)(source + FROM_RUN(i, k));                                         \
            *(__global anywhere_t*)(target + TO_RUN(i, 0)) = OUT_OF(v, FROM, OF, 0);                                   \
            *(__global anywhere_t*)(target + TO_RUN(i, 1)) = OUT_OF(v, FROM, OF, 1);                                   \
            THIRD(*(__global anywhere_t*)(target + TO_RUN(i, 2)) = OUT_OF(v, FROM, OF, 2);)                            \
            FOURTH(*(__global anywhere_t*)(target + TO_RUN(i, 3)) = OUT_OF(v, FROM, OF, 3);)                           \
        }                                                                                                              \
        for (; i < last; ++i) {                                                                                        \
            _Pragma("unroll") for (int c = 0; c < CHANNELS; ++c)                                                       \
                target[TO_AT(i, c)] = source[FROM_AT(i, c)];                                                           \
        }                                                                                                              \
    }
#if CHANNELS > 2
#define THIRD(STATEMENT) STATEMENT
#else
#define THIRD(STATEMENT)
#endif
#if CHANNELS > 3
#define FOURTH(STATEMENT) STATEMENT
#else
#define FOURTH(STATEMENT)
#endif
#define SIDE_BY_SIDE(i, c) (i * CHANNELS + c)
#define RUN_OF_ALL(i, k) (i * CHANNELS + k * LANES)
#define IN_SOURCE(i, c) (c * space.source[1] + i)
#define IN_TARGET(i, c) (c * space.target[1] + i)
CHANNELS_KERNEL(interleave, SIDE_BY_SIDE, RUN_OF_ALL, IN_SOURCE, IN_SOURCE, FROM_PLANES, OF_PLANES)
CHANNELS_KERNEL(deinterleave, IN_TARGET, IN_TARGET, SIDE_BY_SIDE, RUN_OF_ALL, FROM_PIXELS, OF_PIXELS)
