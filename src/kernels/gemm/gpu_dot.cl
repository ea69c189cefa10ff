// Products with few rows on GPUs (matrix times vector, dot), bound by the reading of B. A work-group of 16 x 16
// work-items owns up to ROWS rows of C and some of its columns, over one of `splits` parts of k; its items divide k
// between them and add up in local memory in a fixed order.
//   B_ALONG_K=1   B's columns lie along k: 16 columns, the 16 items of a column read neighbouring quads of k
//   B_ALONG_K=0   64 columns, neighbouring items read neighbouring quads of columns, the 16 rows of items every 16th k
// UNROLL quads of B are on their way at a time: loads first, then sums. Options: those of problem.cl, -DROWS=1|4,
// -DALIGNED=0|1 (quads lie at multiples of four elements, as many), -DSUB_GROUP=.. where Intel's compiler would take
// the widest and spill.
#include "kernels/gemm/problem.cl"
#include "core/quad.cl"

#define SIDE 16
#define UNROLL 4
#define REAL4 CLPRIM_CAT(REAL, 4)
#if B_ALONG_K
#define STEP 4                       // of k, by which an item goes on; its k are at STEP * k_of_item
#define COLUMNS 1                    // of an item
typedef REAL sum_t;
#else
#define STEP 1
#define COLUMNS 4
typedef REAL4 sum_t;
#endif
#define LINE_STEP (SIDE * STEP)      // of k, between two quads of an item
#if defined(CLPRIM_FP64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// Four neighbours, of which the first `count` are there; `step` apart.
static inline REAL4 load_four(const __global storage_t(X)* from, long step, long count)
{
#if ALIGNED
    return count > 0 ? CLPRIM_CAT(convert_, REAL4)(load_quad(X, from)) : (REAL4)0;
#else
    REAL values[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        values[e] = e < count ? (REAL)load(X, from, e * step) : (REAL)0;
    return (REAL4)(values[0], values[1], values[2], values[3]);
#endif
}

static inline REAL sum_of(REAL4 v) { return (v.x + v.y) + (v.z + v.w); }

typedef struct {
    const __global storage_t(X) *a, *b;   // this item's first k
    long a_row, a_step, b_near, b_step;   // b_near: between the elements of a quad
    long columns;                         // that are left from this item's first on
    int last_row;                         // rows beyond it repeat it and are not written
} dot_sides;

// Adds the products of `quads` quads of k; `left` counts the k that are left from the first on.
static inline void add_products(sum_t sums[ROWS], dot_sides s, int quads, long left)
{
    REAL4 b[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
        if (u < quads)
            b[u] = load_four(s.b + u * LINE_STEP * s.b_step, s.b_near,
                             B_ALONG_K ? left - u * LINE_STEP : left > u * LINE_STEP ? s.columns : 0);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
        if (u < quads) {
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                const __global storage_t(X)* a = s.a + min(row, s.last_row) * s.a_row + u * LINE_STEP * s.a_step;
#if B_ALONG_K
                REAL4 v = 0;
                v.x = left > u * LINE_STEP ? (REAL)load(X, a, 0) : 0;
                v.y = left > u * LINE_STEP + 1 ? (REAL)load(X, a, s.a_step) : 0;
                v.z = left > u * LINE_STEP + 2 ? (REAL)load(X, a, 2 * s.a_step) : 0;
                v.w = left > u * LINE_STEP + 3 ? (REAL)load(X, a, 3 * s.a_step) : 0;
                sums[row] += sum_of(v * b[u]);
#else
                sums[row] += (left > u * LINE_STEP ? (REAL)load(X, a, 0) : 0) * b[u];
#endif
            }
        }
}

#ifdef SUB_GROUP
__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
#endif
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, long splits,
              long split_depth)
{
    const int x = get_local_id(0), y = get_local_id(1);
    const int column_of_item = B_ALONG_K ? y : x, k_of_item = B_ALONG_K ? x : y;
    const long first_column = ((long)get_group_id(0) * SIDE + column_of_item) * COLUMNS;
    const long row_blocks = (p.m + ROWS - 1) / ROWS, row0 = get_group_id(1) % row_blocks * ROWS;
    const long split = get_group_id(1) / row_blocks, batch = get_group_id(2);
    const long begin = split * split_depth + k_of_item * STEP, end = min(p.k, (split + 1) * split_depth);
    const int rows = (int)min(p.m - row0, (long)ROWS);

    dot_sides s;
    s.columns = p.n - first_column;
    s.a_row = p.a.row, s.last_row = rows - 1;
    s.a_step = p.a.column, s.b_step = p.b.row, s.b_near = B_ALONG_K ? p.b.row : p.b.column;
    s.a = a + (a_offset + batch * p.a.batch + row0 * p.a.row + begin * p.a.column);
    s.b = b + (b_offset + batch * p.b.batch + first_column * p.b.column + begin * p.b.row);
    sum_t sums[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
        sums[row] = 0;
    if (s.columns > 0) {
        long left = end - begin;
        for (; left >= UNROLL * LINE_STEP; left -= UNROLL * LINE_STEP) {
            add_products(sums, s, UNROLL, UNROLL * LINE_STEP);
            s.a += UNROLL * LINE_STEP * s.a_step;
            s.b += UNROLL * LINE_STEP * s.b_step;
        }
        for (; left > 0; left -= LINE_STEP) {
            add_products(sums, s, 1, left);
            s.a += LINE_STEP * s.a_step;
            s.b += LINE_STEP * s.b_step;
        }
    }

    __local sum_t parts[SIDE][SIDE + 1];   // [column][k]
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        barrier(CLK_LOCAL_MEM_FENCE);
        parts[column_of_item][k_of_item] = sums[row];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_side = SIDE / 2; half_side > 0; half_side /= 2) {
            if (k_of_item < half_side)
                parts[column_of_item][k_of_item] += parts[column_of_item][k_of_item + half_side];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        // Column e of a quad is written by item e of those that share it.
        if (k_of_item < COLUMNS && k_of_item < s.columns && row < rows) {
            const REAL sum = ((const __local REAL*)&parts[column_of_item][0])[k_of_item];
            const long i = row0 + row, j = first_column + k_of_item;
            if (splits > 1)
                partial[partial_offset + ((split * p.batch + batch) * p.m + i) * p.n + j] = sum;
            else
                finish_element(sum, c + c_offset + batch * p.c.batch + AT(p.c, i, j),
                               d + d_offset + batch * p.d.batch + AT(p.d, i, j), &p, alpha, beta);
        }
    }
}
