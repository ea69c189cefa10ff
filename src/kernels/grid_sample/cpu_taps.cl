// Taps of 16 points at a time on CPUs. -DX: dtype; the options of taps.cl with -DAXES=2.
#define VEC 16
#include "core/dtype.cl"
#include "core/vector.cl"

typedef CLPRIM_CAT(ACC, 16) acc_t;
#define index_t CLPRIM_CAT(index_of_, ACC)   // as wide as the number, for conditions
#define index_of_float int16
#define index_of_double long16
#define TO_INDEX(v) CLPRIM_CAT(convert_, index_t)(v)
#include "kernels/grid_sample/taps.cl"

#define BLOCK 64   // points of a work-item

// Coordinates x (axis 0) or y (axis 1) of `count` points; those of the last one again in the other lanes.
static inline acc_t coordinates(const __global storage_t(X)* grid, int axis, uint count)
{
    if (count == 16) {
        const acc_t a = load_vector(X, grid, 0), b = load_vector(X, grid, 16);
        return axis == 0 ? (acc_t)(a.even, b.even) : (acc_t)(a.odd, b.odd);
    }
    ACC values[16];
    for (uint i = 0; i < 16; ++i)
        values[i] = load(X, grid, 2 * min(i, count - 1) + axis);
    return vload16(0, values);
}
