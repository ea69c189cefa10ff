// Operations in which a work-item owns a column of the right-hand sides. -DX, -DREAL, -DCOMPLEX: see number.cl.
#include "kernels/linalg/number.cl"

typedef struct { long row, column, batch; } layout_t;

// Solves a triangular system; `upper` from the last row on.
__kernel void triangular_solve(const __global T* a, ulong a_offset, layout_t la, __global T* b, ulong b_offset,
                               layout_t lb, int n, int columns, int upper, int unit)
{
    const long column = get_global_id(0), matrix = get_global_id(1);
    if (column >= columns)
        return;
    a += a_offset + matrix * la.batch;
    b += b_offset + matrix * lb.batch + column * lb.column;
    for (int step = 0; step < n; ++step) {
        const int i = upper ? n - 1 - step : step;
        T sum = b[i * lb.row];
        for (int k = upper ? i + 1 : 0; k < (upper ? n : i); ++k)
            sum -= times(a[i * la.row + k * la.column], b[k * lb.row]);
        b[i * lb.row] = unit ? sum : times(sum, inverse(a[i * (la.row + la.column)]));
    }
}

__kernel void exchange_rows(__global T* b, ulong b_offset, const __global int* pivots, ulong pivots_offset, int rows,
                            int columns, int count, int opposite)
{
    const long column = get_global_id(0), matrix = get_global_id(1);
    if (column >= columns)
        return;
    b += b_offset + matrix * rows * columns + column;
    pivots += pivots_offset + matrix * count;
    for (int step = 0; step < count; ++step) {
        const int i = opposite ? count - 1 - step : step;
        const long other = pivots[i] - 1;
        if (other < 0 || other >= rows)
            continue;
        const T held = b[(long)i * columns];
        b[(long)i * columns] = b[other * columns];
        b[other * columns] = held;
    }
}

// C = H_1 H_2 ... C or, if `adjoint`, ... H_2^H H_1^H C, with H = 1 - tau v v^H and v in the columns of a [rows,
// width].
__kernel void apply_reflectors(const __global T* a, ulong a_offset, const __global T* tau, ulong tau_offset,
                               __global T* c, ulong c_offset, layout_t lc, int rows, int width, int count, int columns,
                               int adjoint)
{
    const long column = get_global_id(0), matrix = get_global_id(1);
    if (column >= columns)
        return;
    a += a_offset + matrix * rows * width;
    tau += tau_offset + matrix * count;
    c += c_offset + matrix * lc.batch + column * lc.column;
    for (int step = 0; step < count; ++step) {
        const int k = adjoint ? step : count - 1 - step;
        T product = c[k * lc.row];
        for (int i = k + 1; i < rows; ++i)
            product += times(conjugate(a[(long)i * width + k]), c[i * lc.row]);
        product = times(product, adjoint ? conjugate(tau[k]) : tau[k]);
        c[k * lc.row] -= product;
        for (int i = k + 1; i < rows; ++i)
            c[i * lc.row] -= times(a[(long)i * width + k], product);
    }
}
