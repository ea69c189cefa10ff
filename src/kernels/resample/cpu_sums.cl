// Vectors of 16 sums of resampling's kernels on CPUs, and how they become elements.
#include "kernels/resample/axes.cl"
#define VEC 16
#include "core/vector.cl"

typedef CLPRIM_CAT(ACC, 16) sums_t;

#define from_sums_float16(v) (v)
#define from_sums_bfloat16(v) (v)
#define from_sums_float32(v) (v)
#define from_sums_float64(v) (v)
#define from_sums_uint8(v) convert_uchar16(v)

// n of 16 elements from the i-th.
#define load_sums(x, i, n) CLPRIM_CAT(CLPRIM_CAT(convert_, ACC), 16)(load_part(X, x, i, n, 0))
static inline void store_sums(__global storage_t(X)* y, ulong i, uint n, sums_t v)
{
    const vector_t(X) elements = CLPRIM_CAT(from_sums_, X)(to_element(v));
    store_part(X, y, i, n, elements);
}
