// One-sided Jacobi rotations on CPUs (see jacobi.cl): a work-item owns a matrix, whose columns lie as rows of w [n, m].
// -DX, -DREAL, -DCOMPLEX: see number.cl; -DNAME: the type of real elements. TEAM is 1.
#include "kernels/linalg/number.cl"
#include "kernels/linalg/cpu_rows.cl"

// (p, q) become (c p - s e q, s p + c e q), as in jacobi.cl.
static inline void rotate(__global T* p, __global T* q, int count, R s, R h, T phase)
{
    __global R* a = (__global R*)p;
    __global R* b = (__global R*)q;
    int j = 0;
    for (; j + 16 <= count * PARTS; j += 16) {
        const vec x = LOAD(a + j), y = multiple(phase, LOAD(b + j));
        STORE(x - s * (y + h * x), a + j);
        STORE(y + s * (x - h * y), b + j);
    }
    for (j /= PARTS; j < count; ++j) {
        const T x = p[j], y = times(phase, q[j]);
        p[j] = x - s * (y + h * x);
        q[j] = y + s * (x - h * y);
    }
}

// Work-item: a matrix, whose largest element is about 1. v [n, n] begins as the unit matrix; norms [n] is for the
// kernel alone.
__kernel void jacobi(__global T* w, ulong w_offset, __global T* v, ulong v_offset, __global R* norms,
                     ulong norms_offset, int m, int n, int sweeps, R tolerance, R nothing)
{
    const ulong matrix = get_global_id(0);
    w += w_offset + matrix * n * m;
    v += v_offset + matrix * n * n;
    norms += norms_offset + matrix * n;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            v[(long)i * n + j] = from_real(i == j);
    bool moved = true;
    for (int sweep = 0; moved && sweep < sweeps; ++sweep) {
        moved = false;
        for (int i = 0; i < n; ++i)
            norms[i] = square_of(w + (long)i * m, m);
        for (int p = 0; p < n; ++p)
            for (int q = p + 1; q < n; ++q) {
                __global T* x = w + (long)p * m;
                __global T* y = w + (long)q * m;
                const R xx = norms[p], yy = norms[q];
                const T xy = dot_of(x, y, m);
                const R size = magnitude(xy);
                if (!(size > tolerance * sqrt(xx) * sqrt(yy)) || xx < nothing || yy < nothing)
                    continue;
                const R zeta = (yy - xx) / (2 * size);
                const R t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                const R c = 1 / sqrt(1 + t * t), s = c * t;
                const T phase = conjugate(xy) / size;
                rotate(x, y, m, s, s / (1 + c), phase);
                rotate(v + (long)p * n, v + (long)q * n, n, s, s / (1 + c), phase);
                norms[p] = square_of(x, m);
                norms[q] = square_of(y, m);
                moved = true;
            }
    }
}

// Work-item: a matrix of `count` elements, which are divided by a power of two beside the largest, or multiplied by it
// again with their singular values.
__kernel void normalise(__global T* w, ulong w_offset, __global int* exponents, ulong exponents_offset, ulong count)
{
    __global R* numbers = (__global R*)(w + w_offset + get_global_id(0) * count);
    R largest = 0;
    for (ulong i = 0; i < count * PARTS; ++i)
        largest = fmax(largest, fabs(numbers[i]));
    const int exponent = largest > 0 && isfinite(largest) ? ilogb(largest) : 0;
    exponents[exponents_offset + get_global_id(0)] = exponent;
    for (ulong i = 0; exponent != 0 && i < count * PARTS; ++i)
        numbers[i] = ldexp(numbers[i], -exponent);
}

__kernel void restore(__global T* w, ulong w_offset, __global R* values, ulong values_offset,
                      const __global int* exponents, ulong exponents_offset, ulong count, ulong n)
{
    __global R* numbers = (__global R*)(w + w_offset + get_global_id(0) * count);
    values += values_offset + get_global_id(0) * n;
    const int exponent = exponents[exponents_offset + get_global_id(0)];
    for (ulong i = 0; exponent != 0 && i < count * PARTS; ++i)
        numbers[i] = ldexp(numbers[i], exponent);
    for (ulong i = 0; exponent != 0 && i < n; ++i)
        values[i] = ldexp(values[i], exponent);
}
