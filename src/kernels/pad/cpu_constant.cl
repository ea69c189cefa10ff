// Padding with a number on CPUs. A work-item has some rows of the result, or a piece of a long one. -DD: uint8 to
// uint64 or raw128, the size of an element is all that matters.
#include "core/dtype.cl"
CLPRIM_PLAIN_DTYPE(raw128, uint4)

#define RUN storage_t(D)
#include "kernels/copy/run.cl"

#define AXES 5
#define PIECE 16384   // elements of a piece

// Mirror of ConstantGeometry (constant.cpp). Axis 0 is the outermost, strides are those of x.
typedef struct {
    long in[AXES], out[AXES], before[AXES], strides[AXES];
} constant_t;

static inline void fill_run(__global storage_t(D)* to, long count, storage_t(D) value)
{
    if (count < 8) {
#pragma unroll 1
        for (long i = 0; i < count; ++i)
            to[i] = value;
        return;
    }
    for (long i = 0; i < count; ++i)
        to[i] = value;
}

// pieces: of a row; else a work-item has `each` rows. What follows the numbers of a row is filled with what precedes
// those of the next.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pad_constant(const __global storage_t(D)* x, ulong x_offset, __global storage_t(D)* y, ulong y_offset,
                           constant_t p, ulong rows, uint each, uint pieces, storage_t(D) value)
{
    const ulong id = get_global_id(0), first_row = id / pieces * each, end_row = min(first_row + each, rows);
    const long width = p.out[AXES - 1], begin = id % pieces * PIECE;
    const long end = pieces > 1 ? min(begin + PIECE, width) : width;
    const long left = clamp(p.before[AXES - 1], begin, end);
    const long right = clamp(p.before[AXES - 1] + p.in[AXES - 1], left, end);
    long place[AXES - 1];
    ulong rest = first_row;
    for (int axis = AXES - 2; axis >= 0; --axis) {
        place[axis] = rest % p.out[axis];
        rest /= p.out[axis];
    }
    x += x_offset + (left - p.before[AXES - 1]);
    y += y_offset;
    long filled = first_row * width + begin;   // all before is written
    for (ulong row = first_row; row < end_row; ++row) {
        int inside = 1;
        long from = 0;
        for (int axis = 0; axis < AXES - 1; ++axis) {
            const long at = place[axis] - p.before[axis];
            inside &= at >= 0 && at < p.in[axis];
            from += at * p.strides[axis];
        }
        if (inside) {
            const long to = row * width + left;
            fill_run(y + filled, to - filled, value);
            copy_run(y + to, x + from, right - left);
            filled = to + right - left;
        }
        for (int axis = AXES - 2; axis >= 0 && ++place[axis] == p.out[axis]; --axis)
            place[axis] = 0;
    }
    fill_run(y + filled, (end_row - 1) * width + end - filled, value);
}
