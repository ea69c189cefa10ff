// Triangular systems with a sparse matrix of compressed rows, in place: a work-group owns COLUMNS right-hand sides and
// passes over the rows in their order, LANES work-items to a side. They share the terms of a row, and the next row
// reads what the group has written: no row waits for another group. Entries beyond the triangle are passed over.
// -DX: dtype of values; -DREAL: of their parts; -DI: of indices; -DCOMPLEX; -DLANES; -DCOLUMNS
#include "core/errors.cl"
#include "kernels/linalg/number.cl"

#ifdef COMPLEX
#define quotient(a, b) times(a, inverse(b))
#else
#define quotient(a, b) ((a) / (b))
#endif

typedef struct {
    long rows, width, entries;
    long strides[2];       // of the sides
    int upper, unit;       // unit: the diagonal is 1, whatever is stored
} solve_t;

__kernel __attribute__((reqd_work_group_size(LANES, COLUMNS, 1)))
void sparse_triangular_solve(const __global storage_t(I)* pointers, ulong pointers_offset,
                             const __global storage_t(I)* columns, ulong columns_offset,
                             const __global storage_t(X)* values, ulong values_offset, __global storage_t(X)* sides,
                             ulong sides_offset, solve_t p, __global int* errors, int operator_code)
{
    __local T sums[COLUMNS][LANES], diagonals[COLUMNS][LANES];
    const int lane = get_local_id(0), place = get_local_id(1);
    const long n = (long)get_group_id(0) * COLUMNS + place;
    const bool active = n < p.width;
    pointers += pointers_offset;
    columns += columns_offset;
    values += values_offset;
    sides += sides_offset + (active ? n : 0) * p.strides[1];
    for (long step = 0; step < p.rows; ++step) {
        const long row = p.upper ? p.rows - 1 - step : step;
        const ulong begin = pointers[row];
        ulong end = pointers[row + 1];
        if (begin > end || end > (ulong)p.entries) {
            clprim_index_error(errors, operator_code, begin > end ? begin : end, p.entries);
            end = begin;
        }
        T sum = 0, diagonal = 0;
        for (ulong e = begin + lane; e < end; e += LANES) {
            const long column = columns[e];
            if (column < 0 || column >= p.rows)
                clprim_index_error(errors, operator_code, column, p.rows);
            else if (column == row)
                diagonal += load(X, values, e);
            else if ((column > row) == (bool)p.upper)
                sum += times(load(X, values, e), load(X, sides, column * p.strides[0]));
        }
        sums[place][lane] = sum;
        diagonals[place][lane] = diagonal;
        for (int reach = LANES / 2; reach > 0; reach /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane < reach) {
                sums[place][lane] += sums[place][lane + reach];
                diagonals[place][lane] += diagonals[place][lane + reach];
            }
        }
        if (lane == 0 && active) {
            const T rest = load(X, sides, row * p.strides[0]) - sums[place][0];
            store(X, sides, row * p.strides[0], p.unit ? rest : quotient(rest, diagonals[place][0]));
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
