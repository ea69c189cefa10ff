// What every backward needs first. Options: those of problem.cl.
#include "kernels/attention/rows.cl"

// delta = grad_y . y for every row. On GPUs LANES work-items share a row, which lies along them.
#ifdef CLPRIM_DEVICE_GPU
#define GROUP 64
#define LANES 8
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
#else
#define LANES 1
#endif
__kernel void row_products(INPUT(y), INPUT(grad_y), __global REAL* delta, ulong delta_offset, attention_problem p,
                           gradient_layouts grad)
{
    const long rows = p.batch * p.heads * p.queries, row = get_global_id(0) / LANES;
    const int lane = get_local_id(0) % LANES;
    const place at = place_of(&p, min(row, rows - 1), p.heads, p.queries);
    y += y_offset + AT_HEAD(p.y, at.b, at.h) + at.i * p.y.row + lane * p.y.column;
    grad_y += grad_y_offset + AT_HEAD(grad.y, at.b, at.h) + at.i * grad.y.row + lane * grad.y.column;
#if LANES == 1
    const REAL sum = dot_rows(y, p.y.column, grad_y, grad.y.column, p.value_size);
#else
    const int size = (int)(p.value_size - lane + LANES - 1) / LANES;
    REAL sum = 0;
    _Pragma("unroll 4")
    for (int e = 0; e < size; ++e)
        sum += (REAL)load(X, y, e * LANES * p.y.column) * (REAL)load(X, grad_y, e * LANES * grad.y.column);
    __local REAL sums[GROUP];
    sums[get_local_id(0)] = sum;
    for (int half_count = LANES / 2; half_count > 0; half_count /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_count)
            sums[get_local_id(0)] += sums[get_local_id(0) + half_count];
    }
    sum = sums[get_local_id(0)];
#endif
    if (lane == 0 && row < rows)
        delta[delta_offset + row] = sum;
}
