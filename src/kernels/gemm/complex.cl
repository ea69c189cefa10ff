// C = alpha (re + i im) + beta D from the planes of a complex product, [batch][m][n] each. One work-item, one element.
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
#else   // which divide 64 bits slowly
    const long j = get_global_id(0), i = get_global_id(1), batch = get_global_id(2);
    if (j >= p.n || i >= p.m)
        return;
    const ulong id = (batch * p.m + i) * p.n + j;
#endif
    compute_t(X) v = (compute_t(X))(re[re_offset + id], im[im_offset + id]);
    if (alpha.x != 1 || alpha.y != 0)   // multiplying by 1 + 0 i would turn infinity into NaN
        v = multiply(alpha, v);
    if (p.add_d) {
        const compute_t(X) addend = load(X, d, d_offset + batch * p.d.batch + AT(p.d, i, j));
        v += beta.x == 1 && beta.y == 0 ? addend : multiply(beta, addend);
    }
    store(X, c, c_offset + batch * p.c.batch + AT(p.c, i, j), v);
}
