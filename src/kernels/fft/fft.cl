// One pass of a self-sorting Fourier transform: the transforms of length `rest` that are left, `done` of them
// interleaved, are cut by the factor `radix`. Built with -DR=float or double.
//
// Work-item (i, line) owns output element i = q + done * (radix * k + t) of its line: term t of the small transform
// over input elements q + done * (k + rest / radix * r), r = 0 .. radix - 1, turned by the root of unity w_rest^(k t).
// roots[j] = exp(-2 pi i j / n). The last pass multiplies by `scale`, the others by 1.
#include "core/dtype.cl"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
typedef CAT(R, 2) complex_t;

__kernel void fft_pass(__global const complex_t* x, ulong x_offset, __global complex_t* y, ulong y_offset,
                       __global const complex_t* roots, ulong roots_offset, uint n, uint done, uint rest, uint radix,
                       int inverse, R scale)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const ulong line = (ulong)get_global_id(1) * n;
    x += x_offset + line;
    y += y_offset + line;
    roots += roots_offset;
    const uint q = i % done, place = i / done, t = place % radix, k = place / radix;
    const uint part = rest / radix, stride = n / radix;
    complex_t sum = (complex_t)(0, 0);
    uint turn = 0;                           // r t modulo radix
    for (uint r = 0; r < radix; ++r) {
        const complex_t v = x[q + (ulong)done * (k + (ulong)part * r)], w = roots[(ulong)turn * stride];
        const R s = inverse ? -w.y : w.y;
        sum += (complex_t)(v.x * w.x - v.y * s, v.x * s + v.y * w.x);
        turn += t;
        turn -= turn >= radix ? radix : 0;
    }
    const complex_t w = roots[(ulong)k * t * done];
    const R s = inverse ? -w.y : w.y;
    y[i] = scale * (complex_t)(sum.x * w.x - sum.y * s, sum.x * s + sum.y * w.x);
}
