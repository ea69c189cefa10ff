// Products with few rows on GPUs (matrix times vector, dot), bound by the reading of B. A work-group of 16 x 16
// work-items owns one row of C and some of its columns, over one of `splits` parts of k; its items divide k between
// them and add up in local memory in a fixed order.
//   K_CONTIGUOUS: B's columns lie along k. 16 columns; the 16 items of a column read neighbouring k.
//   otherwise:    16 columns; neighbouring items read neighbouring columns, the 16 rows of items take every 16th k.
#include "kernels/gemm/problem.cl"

#define SIDE 16
#if defined(CLPRIM_FP64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, long splits,
              long split_depth)
{
    const int x = get_local_id(0), y = get_local_id(1);
#ifdef K_CONTIGUOUS
    const int column_of_item = y, k_of_item = x;
#else
    const int column_of_item = x, k_of_item = y;
#endif
    const long column = (long)get_group_id(0) * SIDE + column_of_item;
    const long row = get_group_id(1) % p.m, split = get_group_id(1) / p.m, batch = get_group_id(2);
    const long k_end = min(p.k, (split + 1) * split_depth);
    a += a_offset + batch * p.a.batch + row * p.a.row;
    b += b_offset + batch * p.b.batch + column * p.b.column;

    REAL sum = 0;
    if (column < p.n)
        for (long k = split * split_depth + k_of_item; k < k_end; k += SIDE)
            sum += (REAL)load(X, a, k * p.a.column) * (REAL)load(X, b, k * p.b.row);

    __local REAL sums[SIDE][SIDE + 1];   // [column][k]
    sums[column_of_item][k_of_item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_side = SIDE / 2; half_side > 0; half_side /= 2) {
        if (k_of_item < half_side)
            sums[column_of_item][k_of_item] += sums[column_of_item][k_of_item + half_side];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (k_of_item != 0 || column >= p.n)
        return;
    sum = sums[column_of_item][0];
    if (splits > 1)
        partial[partial_offset + ((split * p.batch + batch) * p.m + row) * p.n + column] = sum;
    else
        finish_element(sum, c + c_offset + batch * p.c.batch + AT(p.c, row, column),
                       d + d_offset + batch * p.d.batch + AT(p.d, row, column), &p, alpha, beta);
}
