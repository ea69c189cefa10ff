// What every backward needs first. Options: those of problem.cl.
#include "kernels/attention/rows.cl"

// delta = grad_y . y for every row.
__kernel void row_products(INPUT(y), INPUT(grad_y), __global REAL* delta, ulong delta_offset, attention_problem p,
                           gradient_layouts grad)
{
    const long row = get_global_id(0);
    if (row >= p.batch * p.heads * p.queries)
        return;
    const place at = place_of(&p, row, p.heads, p.queries);
    delta[delta_offset + row] =
        dot_rows(y + y_offset + AT_HEAD(p.y, at.b, at.h) + at.i * p.y.row, p.y.column,
                 grad_y + grad_y_offset + AT_HEAD(grad.y, at.b, at.h) + at.i * grad.y.row, grad.y.column, p.value_size);
}
