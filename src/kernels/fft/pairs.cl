// Lines of 2 n real numbers whose pairs are transformed as complex numbers: the pairs' transform to the first n + 1
// terms of the line, and back (Cooley, Lewis and Welch, "The fast Fourier transform algorithm", 1970). Work-item (k,
// line). -DR=float or double; turns[k] = exp(-2 pi i k / 2 n), 0 <= k <= n.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 2) complex_t;

static inline complex_t conjugate(complex_t v) { return (complex_t)(v.x, -v.y); }
static inline complex_t product(complex_t a, complex_t b)
{
    return (complex_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__kernel void to_terms(const __global complex_t* x, ulong x_offset, __global complex_t* y, ulong y_offset,
                       const __global complex_t* turns, ulong turns_offset, uint n, R scale)
{
    const uint k = get_global_id(0);
    const ulong line = get_global_id(1);
    if (k > n)
        return;
    x += x_offset + line * n;
    const complex_t a = x[k < n ? k : 0], b = conjugate(x[k > 0 ? n - k : 0]);
    const complex_t odd = product(a - b, turns[turns_offset + k]);
    y[y_offset + line * (n + 1) + k] = (R)0.5 * scale * (a + b + (complex_t)(odd.y, -odd.x));
}

__kernel void from_terms(const __global complex_t* x, ulong x_offset, __global complex_t* y, ulong y_offset,
                         const __global complex_t* turns, ulong turns_offset, uint n)
{
    const uint k = get_global_id(0);
    const ulong line = get_global_id(1);
    if (k >= n)
        return;
    x += x_offset + line * (n + 1);
    complex_t a = x[k], b = conjugate(x[n - k]);
    if (k == 0)
        a.y = 0, b.y = 0;
    const complex_t odd = product(a - b, conjugate(turns[turns_offset + k]));
    y[y_offset + line * n + k] = a + b + (complex_t)(-odd.y, odd.x);
}
