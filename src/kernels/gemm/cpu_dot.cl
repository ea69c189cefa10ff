// Products with few rows on CPU devices (matrix times vector, a linear layer of a small batch), bound by the reading of
// B, which is read once and never packed. One work-item owns `columns` of C's columns, all rows, over one of `splits`
// parts of k. It takes the columns UNIT at a time, k in chunks that stay in the caches, and the rows ROWS at a time:
//   K_CONTIGUOUS: B's columns lie along k. Four columns; vectors run along k, and their lanes are summed.
//   otherwise:    B's rows lie along columns. Four vectors of columns.
// Rows beyond the last are computed from the last and dropped.
// Options: those of problem.cl, -DROWS=1 or 4; sixteen registers of 32 bytes hold the sums of one row only.
// [-DX86_PREFETCH]
// [-DSTREAMS: the four columns are a quarter of the work-item's apart, so that each quarter is read from its beginning
// to its end, which keeps more lines of memory on the way than one such stream]
// [-DIN_ORDER: one row along k takes one column after the other, so that memory is read from its beginning to its end,
// which processors see and ask ahead for by themselves; -DPAIRS: and bfloat16 by AVX-512 BF16]
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"
#include "core/prefetch.cl"

#define MOST_ROWS 24
#if CLPRIM_VECTOR_BYTES < 64
#undef ROWS
#define ROWS 1
#endif
#ifdef K_CONTIGUOUS
#define UNIT 4
#ifdef IN_ORDER
#define CHUNK 8192
#else
#define CHUNK 1024
#endif
#else
#define UNIT (4 * TILE_LANES)
#define CHUNK 256
#endif

typedef struct {
    long columns, splits, split_depth;
} dot_plan;

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

// Adds the products of `depth` steps of k to sums, ROWS x UNIT. A's row r lies at a + rows[r]; B has `left` columns.
#ifdef K_CONTIGUOUS
#if TILE_LANES == 16
#define LANE_SUM(v) lane_sum_8((v).lo + (v).hi)
#else
#define LANE_SUM(v) lane_sum_8(v)
#endif
static inline REAL lane_sum_8(VECTOR_OF(REAL, 8) v)
{
    const VECTOR_OF(REAL, 4) a = v.lo + v.hi;
    return (a.x + a.z) + (a.y + a.w);
}

// What comes next is on its way from memory while these are multiplied.
#if ROWS == 1 || defined(STREAMS)
#define AHEAD(p) PREFETCH(p);
#else
#define AHEAD(p)
#endif
#ifdef PAIRS
#include "kernels/gemm/dot_pairs.cl"
#endif

#define A_VECTOR(r) LOAD_LANES(a + rows[r] + k)
#define ADD_LANES(r)                                                                                        \
    sums[r * UNIT] += LANE_SUM(s##r##0);                                                                    \
    sums[r * UNIT + 1] += LANE_SUM(s##r##1);                                                                \
    sums[r * UNIT + 2] += LANE_SUM(s##r##2);                                                                \
    sums[r * UNIT + 3] += LANE_SUM(s##r##3);
#ifdef IN_ORDER
static inline void add_products(const __global storage_t(X)* restrict a, const long* rows,
                                const __global storage_t(X)* restrict b, const gemm_problem* p, long left, long apart,
                                long depth, REAL* sums)
{
    a += rows[0];
#ifdef PAIRS
    float16 lanes[UNIT];
    const long wide = depth / 128 * 128;
    if (wide)
        dot_pairs((ulong)b, 2 * p->b.column, (ulong)a, depth / 128, (ulong)lanes, min(left, (long)UNIT));
#else
    const long wide = depth / (4 * TILE_LANES) * (4 * TILE_LANES);
#endif
    for (long j = 0; j < min(left, (long)UNIT); ++j, b += p->b.column) {
        tile_vector s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        long k = wide;
#ifdef PAIRS
        if (wide)
            s0 = lanes[j];
#else
        for (k = 0; k < wide; k += 4 * TILE_LANES) {
            s0 = TILE_ADD_PRODUCT(LOAD_LANES(a + k), LOAD_LANES(b + k), s0);
            s1 = TILE_ADD_PRODUCT(LOAD_LANES(a + k + TILE_LANES), LOAD_LANES(b + k + TILE_LANES), s1);
            s2 = TILE_ADD_PRODUCT(LOAD_LANES(a + k + 2 * TILE_LANES), LOAD_LANES(b + k + 2 * TILE_LANES), s2);
            s3 = TILE_ADD_PRODUCT(LOAD_LANES(a + k + 3 * TILE_LANES), LOAD_LANES(b + k + 3 * TILE_LANES), s3);
        }
#endif
        for (; k + TILE_LANES <= depth; k += TILE_LANES)
            s0 = TILE_ADD_PRODUCT(LOAD_LANES(a + k), LOAD_LANES(b + k), s0);
        REAL sum = LANE_SUM((s0 + s1) + (s2 + s3));
        for (; k < depth; ++k)
            sum += (REAL)load(X, a, k) * (REAL)load(X, b, k);
        sums[j] += sum;
    }
}
#else
static inline void add_products(const __global storage_t(X)* restrict a, const long* rows,
                                const __global storage_t(X)* restrict b, const gemm_problem* p, long left, long apart,
                                long depth, REAL* sums)
{
    const __global storage_t(X)* restrict column0 = b;
    const __global storage_t(X)* restrict column1 = b + min(apart, left - 1) * p->b.column;
    const __global storage_t(X)* restrict column2 = b + min(2 * apart, left - 1) * p->b.column;
    const __global storage_t(X)* restrict column3 = b + min(3 * apart, left - 1) * p->b.column;
#ifdef STREAMS
    const long ahead = 2048 / sizeof(storage_t(X));
#else
    const long ahead = 4 * p->b.column;
#endif
    EACH_ROW(DECLARE)
    long k = 0;
    for (; k + TILE_LANES <= depth; k += TILE_LANES) {
        AHEAD(column0 + k + ahead)
        AHEAD(column1 + k + ahead)
        AHEAD(column2 + k + ahead)
        AHEAD(column3 + k + ahead)
        const tile_vector b0 = LOAD_LANES(column0 + k), b1 = LOAD_LANES(column1 + k);
        const tile_vector b2 = LOAD_LANES(column2 + k), b3 = LOAD_LANES(column3 + k);
        EACH_ROW(ADD)
    }
    EACH_ROW(ADD_LANES)
    for (; k < depth; ++k)
        for (int r = 0; r < ROWS; ++r) {
            const REAL v = (REAL)load(X, a + rows[r], k);
            sums[r * UNIT] += v * (REAL)load(X, column0, k);
            sums[r * UNIT + 1] += v * (REAL)load(X, column1, k);
            sums[r * UNIT + 2] += v * (REAL)load(X, column2, k);
            sums[r * UNIT + 3] += v * (REAL)load(X, column3, k);
        }
}
#endif
#else
#define A_VECTOR(r) (tile_vector)((REAL)load(X, a + rows[r], k * p->a.column))
#define RESUME(r)                                                                                           \
    tile_vector s##r##0 = TILE_VLOAD(0, sums + r * UNIT), s##r##1 = TILE_VLOAD(1, sums + r * UNIT);         \
    tile_vector s##r##2 = TILE_VLOAD(2, sums + r * UNIT), s##r##3 = TILE_VLOAD(3, sums + r * UNIT);
// Of a vector more, for the last columns where they are whole vectors.
#define ADD_NEXT(r, n) s##r##n = TILE_ADD_PRODUCT(A_VECTOR(r), b##n, s##r##n);
#define ADD_0(r) ADD_NEXT(r, 0)
#define ADD_1(r) ADD_0(r) ADD_NEXT(r, 1)
#define ADD_2(r) ADD_1(r) ADD_NEXT(r, 2)
#define KEEP(r)                                                                                             \
    TILE_VSTORE(s##r##0, 0, sums + r * UNIT);                                                               \
    TILE_VSTORE(s##r##1, 1, sums + r * UNIT);                                                               \
    TILE_VSTORE(s##r##2, 2, sums + r * UNIT);                                                               \
    TILE_VSTORE(s##r##3, 3, sums + r * UNIT);
static inline void add_products(const __global storage_t(X)* restrict a, const long* rows,
                                const __global storage_t(X)* restrict b, const gemm_problem* p, long left, long apart,
                                long depth, REAL* sums)
{
    EACH_ROW(RESUME)
    if (left >= UNIT) {
        for (long k = 0; k < depth; ++k) {
            const __global storage_t(X)* line = b + k * p->b.row;
            const tile_vector b0 = LOAD_LANES(line), b1 = LOAD_LANES(line + TILE_LANES);
            const tile_vector b2 = LOAD_LANES(line + 2 * TILE_LANES), b3 = LOAD_LANES(line + 3 * TILE_LANES);
            EACH_ROW(ADD)
        }
    } else if (left == TILE_LANES) {
        for (long k = 0; k < depth; ++k) {
            const tile_vector b0 = LOAD_LANES(b + k * p->b.row);
            EACH_ROW(ADD_0)
        }
    } else if (left == 2 * TILE_LANES) {
        for (long k = 0; k < depth; ++k) {
            const __global storage_t(X)* line = b + k * p->b.row;
            const tile_vector b0 = LOAD_LANES(line), b1 = LOAD_LANES(line + TILE_LANES);
            EACH_ROW(ADD_1)
        }
    } else if (left == 3 * TILE_LANES) {
        for (long k = 0; k < depth; ++k) {
            const __global storage_t(X)* line = b + k * p->b.row;
            const tile_vector b0 = LOAD_LANES(line), b1 = LOAD_LANES(line + TILE_LANES);
            const tile_vector b2 = LOAD_LANES(line + 2 * TILE_LANES);
            EACH_ROW(ADD_2)
        }
    } else {
        for (long k = 0; k < depth; ++k) {
            const __global storage_t(X)* line = b + k * p->b.row;
            const tile_vector b0 = get_row(line, 1, left), b1 = get_row(line + TILE_LANES, 1, left - TILE_LANES);
            const tile_vector b2 = get_row(line + 2 * TILE_LANES, 1, left - 2 * TILE_LANES);
            const tile_vector b3 = get_row(line + 3 * TILE_LANES, 1, left - 3 * TILE_LANES);
            EACH_ROW(ADD)
        }
    }
    EACH_ROW(KEEP)
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, dot_plan plan)
{
    const long j_begin = (long)get_group_id(0) * plan.columns, j_end = min(p.n, j_begin + plan.columns);
    const long split = get_group_id(1), batch = get_group_id(2);
    const long k_begin = split * plan.split_depth, k_end = min(p.k, k_begin + plan.split_depth);
    a += a_offset + batch * p.a.batch;
    b += b_offset + batch * p.b.batch;
    c += c_offset + batch * p.c.batch;
    d += d_offset + batch * p.d.batch;
    partial += partial_offset + (split * p.batch + batch) * p.m * p.n;

    REAL sums[(MOST_ROWS + ROWS - 1) * UNIT];
#ifdef STREAMS
    const long apart = (j_end - j_begin + UNIT - 1) / UNIT, j_last = j_begin + apart, step = 1;
#else
    const long apart = 1, j_last = j_end, step = UNIT;
#endif
    for (long j = j_begin; j < j_last; j += step) {
        const long left = j_end - j;
        for (int i = 0; i < (p.m + ROWS - 1) / ROWS * ROWS * UNIT; ++i)
            sums[i] = 0;
        for (long k = k_begin; k < k_end; k += CHUNK)
            for (long i = 0; i < p.m; i += ROWS) {
                long rows[ROWS];
                for (int r = 0; r < ROWS; ++r)
                    rows[r] = min(i + r, p.m - 1) * p.a.row;
                add_products(a + k * p.a.column, rows, b + AT(p.b, k, j), &p, left, apart,
                             min(k_end - k, (long)CHUNK), sums + i * UNIT);
            }
#ifdef K_CONTIGUOUS
        for (long i = 0; i < p.m; ++i)
            for (int e = 0; e < UNIT && e * apart < left; ++e) {
                const long column = j + e * apart;
                if (plan.splits > 1)
                    partial[i * p.n + column] = sums[i * UNIT + e];
                else
                    finish_element(sums[i * UNIT + e], c + AT(p.c, i, column), d + AT(p.d, i, column), &p, alpha, beta);
            }
#else
        for (long i = 0; i < p.m; ++i)
            for (int e = 0; e < UNIT && e < left; e += TILE_LANES) {
                const tile_vector v = TILE_VLOAD(0, sums + i * UNIT + e);
                if (plan.splits > 1)
                    put_sums(v, partial + i * p.n + j + e, left - e);
                else
                    finish_row(v, c + AT(p.c, i, j + e), d + AT(p.d, i, j + e), &p, left - e, alpha, beta);
            }
#endif
    }
}
