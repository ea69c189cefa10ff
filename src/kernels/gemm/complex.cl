// C = alpha (re + i im) + beta D from the planes of a complex product, [batch][m][n] each. One work-item, one element.
// Options: those of problem.cl, -DOFFSET=int|long (holds every distance within a matrix and a plane).
#define COMPLEX
#include "kernels/gemm/problem.cl"

static inline compute_t(X) multiply(compute_t(X) a, compute_t(X) b)
{
    return (compute_t(X))(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__kernel void combine_planes(__global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
                             const __global REAL* re, ulong re_offset, const __global REAL* im, ulong im_offset,
                             gemm_problem p, compute_t(X) alpha, compute_t(X) beta)
{
#ifdef CLPRIM_DEVICE_CPU
    const ulong id = get_global_id(0);
    if (id >= p.batch * p.m * p.n)
        return;
    const long j = id % p.n, i = id / p.n % p.m, batch = id / p.n / p.m;
    const long at = id, at_c = batch * p.c.batch + AT(p.c, i, j), at_d = batch * p.d.batch + AT(p.d, i, j);
#else   // which divide and multiply 64 bits slowly
    const OFFSET j = get_global_id(0), i = get_global_id(1);
    const long batch = get_group_id(2);   // groups are one deep
    if (j >= (OFFSET)p.n || i >= (OFFSET)p.m)
        return;
    re += batch * p.m * p.n;
    im += batch * p.m * p.n;
    c += batch * p.c.batch;
    d += batch * p.d.batch;
    const OFFSET at = i * (OFFSET)p.n + j, at_c = i * (OFFSET)p.c.row + j * (OFFSET)p.c.column;
    const OFFSET at_d = i * (OFFSET)p.d.row + j * (OFFSET)p.d.column;
#endif
    compute_t(X) v = (compute_t(X))((re + re_offset)[at], (im + im_offset)[at]);
    if (alpha.x != 1 || alpha.y != 0)   // multiplying by 1 + 0 i would turn infinity into NaN
        v = multiply(alpha, v);
    if (p.add_d) {
        const compute_t(X) addend = load(X, d + d_offset, at_d);
        v += beta.x == 1 && beta.y == 0 ? addend : multiply(beta, addend);
    }
    store(X, c + c_offset, at_c, v);
}
