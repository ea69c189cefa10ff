// C from partial products, and the reference. One work-item owns one element of C; columns are fastest.
#include "kernels/gemm/problem.cl"

// partial: [splits][batch][m][n]; summed in order, so the result never depends on who came first.
__kernel void combine(__global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
                      const __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta,
                      int splits)
{
    const ulong id = get_global_id(0), count = p.batch * p.m * p.n;
    if (id >= count)
        return;
    partial += partial_offset + id;
    REAL sum = partial[0];
    for (int s = 1; s < splits; ++s)
        sum += partial[s * count];
    const long j = id % p.n, i = id / p.n % p.m, batch = id / p.n / p.m;
    finish_element(sum, c + c_offset + batch * p.c.batch + AT(p.c, i, j),
                   d + d_offset + batch * p.d.batch + AT(p.d, i, j), &p, alpha, beta);
}

__kernel void reference(const __global storage_t(X)* a, ulong a_offset, const __global storage_t(X)* b, ulong b_offset,
                        __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
                        gemm_problem p, REAL alpha, REAL beta)
{
    const ulong id = get_global_id(0);
    if (id >= p.batch * p.m * p.n)
        return;
    const long j = id % p.n, i = id / p.n % p.m, batch = id / p.n / p.m;
    a += a_offset + batch * p.a.batch + i * p.a.row;
    b += b_offset + batch * p.b.batch + j * p.b.column;
    REAL sum = 0;
    for (long k = 0; k < p.k; ++k)
        sum += (REAL)load(X, a, k * p.a.column) * (REAL)load(X, b, k * p.b.row);
    finish_element(sum, c + c_offset + batch * p.c.batch + AT(p.c, i, j),
                   d + d_offset + batch * p.d.batch + AT(p.d, i, j), &p, alpha, beta);
}
