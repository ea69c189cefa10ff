// Around the convolution of Bluestein's transform of any length: work-item (j, line). -DR=float or double. Inverse
// transforms exchange real and imaginary parts on the way in and out.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 2) complex_t;

static inline complex_t times(complex_t a, complex_t b)
{
    return (complex_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Lines of n elements times the chirp, followed by zeros, m in all.
__kernel void chirp_in(const __global complex_t* x, ulong x_offset, __global complex_t* y, ulong y_offset,
                       const __global complex_t* chirp, ulong chirp_offset, uint n, uint m, int inverse)
{
    const uint j = get_global_id(0);
    const ulong line = get_global_id(1);
    if (j >= m)
        return;
    complex_t v = (complex_t)(0, 0);
    if (j < n) {
        v = x[x_offset + line * n + j];
        v = times(inverse ? v.yx : v, chirp[chirp_offset + j]);
    }
    y[y_offset + line * m + j] = v;
}

// Every line of m elements times one other.
__kernel void chirp_between(__global complex_t* x, ulong x_offset, const __global complex_t* other, ulong other_offset,
                            uint m)
{
    const uint j = get_global_id(0);
    if (j < m) {
        const ulong at = x_offset + (ulong)get_global_id(1) * m + j;
        x[at] = times(x[at], other[other_offset + j]);
    }
}

__kernel void chirp_out(const __global complex_t* x, ulong x_offset, __global complex_t* y, ulong y_offset,
                        const __global complex_t* chirp, ulong chirp_offset, uint n, uint m, int inverse, R scale)
{
    const uint j = get_global_id(0);
    const ulong line = get_global_id(1);
    if (j >= n)
        return;
    const complex_t v = scale * times(x[x_offset + line * m + j], chirp[chirp_offset + j]);
    y[y_offset + line * n + j] = inverse ? v.yx : v;
}
