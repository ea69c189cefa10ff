// n / shape[axis]. GPUs divide slowly; indices of 32 bits come with multipliers (Divider in pointwise/iteration.hpp).
// Needs core/dtype.cl, -DINDEX=uint|ulong and `space` with shape, magic and shift.
#define uint_DIVIDED(n, axis) ((mul_hi((uint)(n), (uint)space.magic[axis]) + (n)) >> space.shift[axis])
#define ulong_DIVIDED(n, axis) ((n) / space.shape[axis])
#ifdef CLPRIM_DEVICE_CPU
#define DIVIDED ulong_DIVIDED
#else
#define DIVIDED CLPRIM_CAT(INDEX, _DIVIDED)
#endif
