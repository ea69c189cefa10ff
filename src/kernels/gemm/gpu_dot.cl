// Products with few rows on GPUs (matrix times vector, dot), bound by the reading of B. A work-group of 16 x 16
// work-items owns up to ROWS rows of C and some of its columns, over one of `splits` parts of k; its items divide k
// between them and add up in local memory in a fixed order.
//   B_ALONG_K=1   the 16 items of a column read neighbouring quads of k; of many rows an item has two columns, since
//                 what it reads of A serves both
//   B_ALONG_K=0   64 columns, neighbouring items read neighbouring quads of columns, each of them at four k
// Loads of B come first, then sums. Options: those of problem.cl, -DROWS=1|4|8|16, -DALIGNED=0|1 (quads of B lie at
// multiples of four elements, as many), -DA_QUADS=0|1 (the same of A, along k), -DOFFSET=int|long (holds every distance
// within a matrix), -DLEFT=int|long (counts k: int saves registers on NVIDIA's), -DSUB_GROUP=.. where Intel's compiler
// would take the widest and spill.
#include "kernels/gemm/problem.cl"
#include "core/quad.cl"

#define SIDE 16
#define REAL4 CLPRIM_CAT(REAL, 4)
#define STEP 4                       // of k, by which an item goes on; its k are at STEP * k_of_item
#define LINE_STEP (SIDE * STEP)      // of k, between two fours of an item
#if B_ALONG_K
#define FOURS (ROWS > 4 ? 2 : 4)     // of k, at a time
#define COLUMNS (ROWS > 4 ? 2 : 1)   // of an item, SIDE apart
#define QUADS_OF_B COLUMNS           // for each four of k
#define WIDTH (SIDE * COLUMNS)       // columns of a group
#define PITCH (WIDTH + 1)            // of local memory, shifted against bank conflicts
#define ROWS_AT_ONCE (ROWS < 4 ? ROWS : 4)
#else
#define FOURS 1
#define COLUMNS 4                    // neighbours
#define QUADS_OF_B STEP
#define WIDTH (SIDE * COLUMNS)
#define PITCH WIDTH
#define ROWS_AT_ONCE (ROWS < 2 ? ROWS : 2)
#endif
#if defined(CLPRIM_FP64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// Four neighbours, of which the first `count` are there; `step` apart.
static inline REAL4 load_four(const __global storage_t(X)* from, OFFSET step, int count, int aligned)
{
    if (aligned)
        return count > 0 ? CLPRIM_CAT(convert_, REAL4)(load_quad(X, from)) : (REAL4)0;
    REAL4 v = 0;
    v.x = count > 0 ? (REAL)load(X, from, 0) : (REAL)0;
    v.y = count > 1 ? (REAL)load(X, from + step, 0) : (REAL)0;
    v.z = count > 2 ? (REAL)load(X, from + 2 * step, 0) : (REAL)0;
    v.w = count > 3 ? (REAL)load(X, from + 3 * step, 0) : (REAL)0;
    return v;
}

// One fused multiplication and addition for each, where compilers may make it.
static inline REAL add_dot(REAL sum, REAL4 a, REAL4 b)
{
    sum += a.x * b.x;
    sum += a.y * b.y;
    sum += a.z * b.z;
    sum += a.w * b.w;
    return sum;
}

typedef struct {
    const __global storage_t(X) *a, *b;       // this item's first k
    OFFSET a_row, a_step, b_column, b_step;   // steps in A and B
    int columns;                              // that are left from this item's first on
    int last_row;                             // rows beyond it repeat it and are not written
} dot_sides;

// Adds the products of `fours` fours of k; `left` counts the k that are left from the first on.
static inline void add_products(REAL4 sums[ROWS], dot_sides s, int fours, int left)
{
    REAL4 b[FOURS][QUADS_OF_B];
#pragma unroll
    for (int u = 0; u < FOURS; ++u)
        if (u < fours) {
#pragma unroll
            for (int q = 0; q < QUADS_OF_B; ++q) {
#if B_ALONG_K
                const int there = s.columns > q * SIDE ? left - u * LINE_STEP : 0;
                b[u][q] = load_four(s.b + (u * LINE_STEP * s.b_step + q * SIDE * s.b_column), s.b_step, there, ALIGNED);
#else
                b[u][q] = load_four(s.b + q * s.b_step, s.b_column, left > q ? s.columns : 0, ALIGNED);
#endif
            }
        }
#pragma unroll
    for (int u = 0; u < FOURS; ++u)
        if (u < fours) {
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                const REAL4 a = load_four(s.a + (min(row, s.last_row) * s.a_row + u * LINE_STEP * s.a_step), s.a_step,
                                          left - u * LINE_STEP, A_QUADS);
#if B_ALONG_K
                sums[row].x = add_dot(sums[row].x, a, b[u][0]);
#if COLUMNS > 1
                sums[row].y = add_dot(sums[row].y, a, b[u][1]);
#endif
#else
                sums[row] += a.x * b[u][0];
                sums[row] += a.y * b[u][1];
                sums[row] += a.z * b[u][2];
                sums[row] += a.w * b[u][3];
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
    const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
    const int column_of_item = B_ALONG_K ? y : x, k_of_item = B_ALONG_K ? x : y;
    const long group_column = (long)get_group_id(0) * WIDTH;
    const int first_column = column_of_item * (B_ALONG_K ? 1 : COLUMNS);
    const long row_blocks = (p.m + ROWS - 1) / ROWS, row0 = get_group_id(1) % row_blocks * ROWS;
    const long split = get_group_id(1) / row_blocks, batch = get_group_id(2);
    const long begin = split * split_depth + k_of_item * STEP, end = min(p.k, (split + 1) * split_depth);
    const int rows = (int)min(p.m - row0, (long)ROWS);
    const int columns = (int)min(p.n - group_column, (long)WIDTH);

    dot_sides s;
    s.columns = columns - first_column;
    s.a_row = p.a.row, s.last_row = rows - 1;
    s.a_step = p.a.column, s.b_step = p.b.row, s.b_column = p.b.column;
    s.a = a + (a_offset + batch * p.a.batch + row0 * p.a.row + begin * p.a.column);
    s.b = b + (b_offset + batch * p.b.batch + (group_column + first_column) * p.b.column + begin * p.b.row);
    REAL4 sums[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
        sums[row] = 0;
    if (s.columns > 0) {
        LEFT left = (LEFT)(end - begin);
        for (; left > (FOURS - 1) * LINE_STEP + STEP - 1; left -= FOURS * LINE_STEP) {
            add_products(sums, s, FOURS, FOURS * LINE_STEP);
            s.a += FOURS * LINE_STEP * s.a_step;
            s.b += FOURS * LINE_STEP * s.b_step;
        }
        for (; left > 0; left -= LINE_STEP) {
            add_products(sums, s, 1, (int)min(left, (LEFT)LINE_STEP));
            s.a += LINE_STEP * s.a_step;
            s.b += LINE_STEP * s.b_step;
        }
    }

    __local REAL4 memory[(ROWS_AT_ONCE * SIDE * PITCH + 3) / 4];   // [row][k][column]
    __local REAL* parts = (__local REAL*)memory;
#pragma unroll
    for (int first = 0; first < ROWS; first += ROWS_AT_ONCE) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int row = 0; row < ROWS_AT_ONCE; ++row) {
            __local REAL* to = parts + (row * SIDE + k_of_item) * PITCH + first_column;
#if B_ALONG_K
            to[0] = sums[first + row].x;
#if COLUMNS > 1
            to[SIDE] = sums[first + row].y;
#endif
#else
            *(__local REAL4*)to = sums[first + row];
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < ROWS_AT_ONCE * WIDTH && item % WIDTH < columns && first + item / WIDTH < rows) {
            const __local REAL* from = parts + item / WIDTH * (SIDE * PITCH) + item % WIDTH;
            REAL sum = from[0];
#pragma unroll
            for (int k = 1; k < SIDE; ++k)
                sum += from[k * PITCH];
            const long i = row0 + first + item / WIDTH, j = group_column + item % WIDTH;
            if (splits > 1)
                partial[partial_offset + ((split * p.batch + batch) * p.m + i) * p.n + j] = sum;
            else
                finish_element(sum, c + c_offset + batch * p.c.batch + AT(p.c, i, j),
                               d + d_offset + batch * p.d.batch + AT(p.d, i, j), &p, alpha, beta);
        }
    }
}
