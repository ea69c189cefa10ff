// Needs core/dtype.cl, -DINDEX=uint|ulong and AXES, how many axes there can be.
//
// The index space, axis 0 innermost. Axes beyond `rank` have size 1.
typedef struct {
    INDEX shape[8], source[8], target[8], magic[8], shift[8];
} space_t;

#include "kernels/copy/divided.cl"

// Takes the index of one axis off position n and adds its offsets. Written out per axis, since some drivers stumble
// over a kernel argument that is indexed by a variable. The last axis there can be takes what is left.
#define ADD_AXIS(axis)                                                                                      \
    if (axis + 1 == AXES) {                                                                                 \
        from += n * space.source[axis];                                                                     \
        to += n * space.target[axis];                                                                       \
    } else if (axis < AXES && axis < rank) {                                                                \
        const INDEX rest = DIVIDED(n, axis), i = n - rest * space.shape[axis];                              \
        n = rest;                                                                                           \
        from += i * space.source[axis];                                                                     \
        to += i * space.target[axis];                                                                       \
    }
#define ADD_AXES_FROM_2 ADD_AXIS(2) ADD_AXIS(3) ADD_AXIS(4) ADD_AXIS(5) ADD_AXIS(6) ADD_AXIS(7)
