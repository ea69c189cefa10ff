// Products with few rows on CPU devices (matrix times vector, a linear layer of a small batch), bound by the reading of
// B, which is read once and never packed. One work-item owns ROWS rows of C (those beyond the last are computed from
// the last and dropped) and `columns` of its columns, over one of `splits` parts of k.
//   K_CONTIGUOUS: B's columns lie along k. Four columns at a time: vectors run along k, and their lanes are summed.
//   otherwise:    B's rows lie along columns. Four vectors of columns at a time: one pass over k.
// Options: those of problem.cl, -DROWS=1 or 4.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"

#define WIDE (4 * TILE_LANES)

#if TILE_LANES == 16
#define LANE_SUM(v) lane_sum_8((v).lo + (v).hi)
#else
#define LANE_SUM(v) lane_sum_8(v)
#endif
inline REAL lane_sum_8(VECTOR_OF(REAL, 8) v)
{
    const VECTOR_OF(REAL, 4) a = v.lo + v.hi;
    return (a.x + a.z) + (a.y + a.w);
}

#if ROWS == 4
#define EACH_ROW(F) F(0) F(1) F(2) F(3)
#else
#define EACH_ROW(F) F(0)
#endif

#define DECLARE(r) tile_vector s##r##0 = 0, s##r##1 = 0, s##r##2 = 0, s##r##3 = 0;
#define ADD(r)                                                                                              \
    {                                                                                                       \
        const tile_vector v = A_VECTOR(r);                                                                  \
        s##r##0 = TILE_ADD_PRODUCT(v, b0, s##r##0);                                                         \
        s##r##1 = TILE_ADD_PRODUCT(v, b1, s##r##1);                                                         \
        s##r##2 = TILE_ADD_PRODUCT(v, b2, s##r##2);                                                         \
        s##r##3 = TILE_ADD_PRODUCT(v, b3, s##r##3);                                                         \
    }

typedef struct {
    long columns, splits, split_depth;
} dot_plan;

// One finished or partial sum to where it belongs.
inline void put_sum(REAL sum, long row, long column, long split, long batch, const gemm_problem* p, long splits,
                    __global storage_t(X)* c, const __global storage_t(X)* d, __global REAL* partial, REAL alpha, REAL beta)
{
    if (splits > 1)
        partial[((split * p->batch + batch) * p->m + row) * p->n + column] = sum;
    else
        finish_element(sum, c + AT(p->c, row, column), d + AT(p->d, row, column), p, alpha, beta);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, dot_plan plan)
{
    const long row_blocks = (p.m + ROWS - 1) / ROWS;
    const long j_begin = (long)get_group_id(0) * plan.columns, j_end = min(p.n, j_begin + plan.columns);
    const long row = (long)(get_group_id(1) % row_blocks) * ROWS, split = get_group_id(1) / row_blocks;
    const long batch = get_group_id(2), rows = min(p.m - row, (long)ROWS);
    const long k_begin = split * plan.split_depth, k_end = min(p.k, k_begin + plan.split_depth);
    a += a_offset + batch * p.a.batch;
    b += b_offset + batch * p.b.batch;
    c += c_offset + batch * p.c.batch;
    d += d_offset + batch * p.d.batch;
    partial += partial_offset;
    // A's rows; those beyond the last repeat it.
    const __global storage_t(X)* restrict a0 = a + row * p.a.row;
#if ROWS == 4
    const __global storage_t(X)* restrict a1 = a0 + min(rows - 1, 1l) * p.a.row;
    const __global storage_t(X)* restrict a2 = a0 + min(rows - 1, 2l) * p.a.row;
    const __global storage_t(X)* restrict a3 = a0 + min(rows - 1, 3l) * p.a.row;
#endif

#ifdef K_CONTIGUOUS
#define A_VECTOR(r) LOAD_LANES(a##r + k)
#define LANES_TO_SUMS(r)                                                                                    \
    sums[r][0] = LANE_SUM(s##r##0);                                                                         \
    sums[r][1] = LANE_SUM(s##r##1);                                                                         \
    sums[r][2] = LANE_SUM(s##r##2);                                                                         \
    sums[r][3] = LANE_SUM(s##r##3);
#define ADD_TAIL(r)                                                                                         \
    for (int j = 0; j < 4; ++j)                                                                             \
        sums[r][j] += (REAL)load(X, a##r, k) * (REAL)load(X, columns_of_b[j], k);
    for (long j = j_begin; j < j_end; j += 4) {
        const __global storage_t(X)* columns_of_b[4];
        for (int e = 0; e < 4; ++e)
            columns_of_b[e] = b + min(j + e, j_end - 1) * p.b.column;
        const __global storage_t(X)* restrict column0 = columns_of_b[0];
        const __global storage_t(X)* restrict column1 = columns_of_b[1];
        const __global storage_t(X)* restrict column2 = columns_of_b[2];
        const __global storage_t(X)* restrict column3 = columns_of_b[3];
        EACH_ROW(DECLARE)
        long k = k_begin;
        for (; k + TILE_LANES <= k_end; k += TILE_LANES) {
            const tile_vector b0 = LOAD_LANES(column0 + k), b1 = LOAD_LANES(column1 + k);
            const tile_vector b2 = LOAD_LANES(column2 + k), b3 = LOAD_LANES(column3 + k);
            EACH_ROW(ADD)
        }
        REAL sums[ROWS][4];
        EACH_ROW(LANES_TO_SUMS)
        for (; k < k_end; ++k) {
            EACH_ROW(ADD_TAIL)
        }
        for (int i = 0; i < rows; ++i)
            for (int e = 0; e < 4 && j + e < j_end; ++e)
                put_sum(sums[i][e], row + i, j + e, split, batch, &p, plan.splits, c, d, partial, alpha, beta);
    }
#else
#define A_VECTOR(r) (tile_vector)((REAL)load(X, a##r, k * p.a.column))
#define KEEP(r)                                                                                             \
    TILE_VSTORE(s##r##0, 0, sums[r]);                                                                       \
    TILE_VSTORE(s##r##1, 1, sums[r]);                                                                       \
    TILE_VSTORE(s##r##2, 2, sums[r]);                                                                       \
    TILE_VSTORE(s##r##3, 3, sums[r]);
    for (long j = j_begin; j < j_end; j += WIDE) {
        const long left = j_end - j;
        EACH_ROW(DECLARE)
        if (left >= WIDE) {
            for (long k = k_begin; k < k_end; ++k) {
                const __global storage_t(X)* line = b + k * p.b.row + j;
                const tile_vector b0 = LOAD_LANES(line), b1 = LOAD_LANES(line + TILE_LANES);
                const tile_vector b2 = LOAD_LANES(line + 2 * TILE_LANES), b3 = LOAD_LANES(line + 3 * TILE_LANES);
                EACH_ROW(ADD)
            }
        } else {
            for (long k = k_begin; k < k_end; ++k) {
                const __global storage_t(X)* line = b + k * p.b.row + j;
                const tile_vector b0 = get_row(line, 1, left), b1 = get_row(line + TILE_LANES, 1, left - TILE_LANES);
                const tile_vector b2 = get_row(line + 2 * TILE_LANES, 1, left - 2 * TILE_LANES);
                const tile_vector b3 = get_row(line + 3 * TILE_LANES, 1, left - 3 * TILE_LANES);
                EACH_ROW(ADD)
            }
        }
        REAL sums[ROWS][WIDE];
        EACH_ROW(KEEP)
        for (int i = 0; i < rows; ++i)
            for (int e = 0; e < WIDE && e < left; ++e)
                put_sum(sums[i][e], row + i, j + e, split, batch, &p, plan.splits, c, d, partial, alpha, beta);
    }
#endif
}
