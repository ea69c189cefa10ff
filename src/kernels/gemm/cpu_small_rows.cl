// Batches of small products on CPU devices whose matrices all have contiguous rows of what is computed in: nothing is
// packed. A work-item computes some matrices of the batch, tile by tile: 8 or 4 rows of one or two vectors of sums in
// registers. Options: those of problem.cl, and -DLANES of a vector: 4, 8 or 16.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"

typedef VECTOR_OF(REAL, LANES) row_vector;
#define VECTOR_OF_LANES_(name, N) name##N
#define VECTOR_OF_LANES(name, N) VECTOR_OF_LANES_(name, N)
#define LOAD_ROW VECTOR_OF_LANES(vload, LANES)
#define STORE_ROW VECTOR_OF_LANES(vstore, LANES)

// small_plan of cpu_small.cl.
typedef struct {
    long each;
    int plain;
} small_plan;

// What a tile's widest row is, and its most rows: sixteen registers of 64 bytes, or eight vectors of narrower ones.
#if defined(CLPRIM_VECTOR_BYTES) && CLPRIM_VECTOR_BYTES < 64
#define WIDE 1
#define MOST_ROWS 4
#else
#define WIDE (LANES * (REAL_KIND(REAL) % 2 ? 4 : 8) >= 64 ? 2 : 1)
#define MOST_ROWS 8
#endif

// The first `count` elements, zero in the other lanes.
static inline row_vector first_of_row(const __global REAL* p, long count)
{
    REAL values[LANES];
    for (int i = 0; i < LANES; ++i)
        values[i] = i < count ? p[i] : 0;
    return LOAD_ROW(0, values);
}

#define STORE_PIECE(N, lanes, rest)                                                                         \
    if (count & N) {                                                                                        \
        vstore##N(v.lanes, 0, p);                                                                           \
        v.lanes = v.rest;                                                                                   \
        p += N;                                                                                             \
    }
static inline void store_row(row_vector v, __global REAL* p, long count)
{
    if (count >= LANES) {
        STORE_ROW(v, 0, p);
        return;
    }
#if LANES == 16
    STORE_PIECE(8, lo, hi)
#endif
#if LANES >= 8
    STORE_PIECE(4, s0123, s4567)
#endif
    STORE_PIECE(2, s01, s23)
    if (count & 1)
        *p = v.s0;
}

DEFINE_SMOOTH(row_vector, REAL, LANES)
// Alpha, D and the activation.
static inline row_vector finished(row_vector v, const __global REAL* d, const gemm_problem* p, long count, REAL alpha,
                                  REAL beta)
{
    v *= alpha;
    if (p->add_d)
        v += beta * (p->d.column == 0 ? (row_vector)*d : count >= LANES ? LOAD_ROW(0, d) : first_of_row(d, count));
#if !REAL_IS_INTEGER
    ACTIVATE(row_vector, v, p->activation)
#endif
    return v;
}

// Rows of a tile: those behind the last are computed of the last, and not stored.
#define ROW_DECLARE(r, u, v, w)                                                                             \
    row_vector low##r = 0, high##r = 0;                                                                     \
    const __global REAL* a##r = a + min(i + r, p.m - 1) * p.a.row;
#define ROW_ADD(r, wide, v, w)                                                                              \
    {                                                                                                       \
        const row_vector factor = a##r[k];                                                                  \
        low##r = TILE_ADD_PRODUCT(factor, b_low, low##r);                                                   \
        if (wide)                                                                                           \
            high##r = TILE_ADD_PRODUCT(factor, b_high, high##r);                                            \
    }
#define ROW_STORE(r, wide, v, w)                                                                            \
    if (i + r < p.m) {                                                                                      \
        __global REAL* to = c + (i + r) * p.c.row + j;                                                      \
        if (!plan.plain) {                                                                                  \
            const __global REAL* addend = d + AT(p.d, i + r, j);                                            \
            low##r = finished(low##r, addend, &p, columns, alpha, beta);                                    \
            if (wide)                                                                                       \
                high##r = finished(high##r, addend + (p.d.column ? LANES : 0), &p, columns - LANES, alpha, beta); \
        }                                                                                                   \
        store_row(low##r, to, columns);                                                                     \
        if (wide)                                                                                           \
            store_row(high##r, to + LANES, columns - LANES);                                                \
    }
#define ROWS_TILE(N, wide)                                                                                  \
    {                                                                                                       \
        TILE_EACH_##N(ROW_DECLARE, 0, 0, 0)                                                                 \
        const __global REAL* row = b + j;                                                                   \
        for (long k = 0; k < p.k; ++k, row += p.b.row) {                                                    \
            row_vector b_low, b_high = 0;                                                                   \
            if (k < whole_rows) {                                                                           \
                b_low = LOAD_ROW(0, row);                                                                   \
                if (wide)                                                                                   \
                    b_high = LOAD_ROW(0, row + LANES);                                                      \
            } else {                                                                                        \
                b_low = first_of_row(row, columns);                                                         \
                if (wide)                                                                                   \
                    b_high = first_of_row(row + LANES, columns - LANES);                                    \
            }                                                                                               \
            TILE_EACH_##N(ROW_ADD, wide, 0, 0)                                                              \
        }                                                                                                   \
        TILE_EACH_##N(ROW_STORE, wide, 0, 0)                                                                \
    }

__kernel TILE_TASK
void multiply(const __global REAL* restrict a, ulong a_offset, const __global REAL* restrict b, ulong b_offset,
              __global REAL* c, ulong c_offset, const __global REAL* d, ulong d_offset, gemm_problem p, REAL alpha,
              REAL beta, small_plan plan)
{
    const long first = (long)get_group_id(0) * plan.each, end = min(first + plan.each, p.batch);
    a += a_offset + first * p.a.batch;
    b += b_offset + first * p.b.batch;
    c += c_offset + first * p.c.batch;
    d += d_offset + first * p.d.batch;
    for (long one = first; one < end; ++one) {
        for (long j = 0; j < p.n; j += WIDE * LANES) {
            const long columns = min(p.n - j, (long)(WIDE * LANES));
            const int wide = WIDE == 2 && columns > LANES;
            // Rows of B that may be read as whole vectors: something follows them in the batch.
            const long readable = (p.batch - 1 - one) * p.b.batch + (p.k - 1) * p.b.row + p.n - j;
            const long beyond = (wide ? 2 * LANES : LANES) - readable + (p.k - 1) * p.b.row;   // of the last row's
            const long whole_rows =
                beyond <= 0 ? p.k : p.b.row == 0 ? 0 : max(0L, p.k - (beyond + p.b.row - 1) / p.b.row);
            for (long i = 0; i < p.m; i += MOST_ROWS)
                if (MOST_ROWS == 8 && p.m - i > 4) {
                    if (wide)
                        ROWS_TILE(8, 1)
                    else
                        ROWS_TILE(8, 0)
                } else {
                    if (wide)
                        ROWS_TILE(4, 1)
                    else
                        ROWS_TILE(4, 0)
                }
        }
        a += p.a.batch;
        b += p.b.batch;
        c += p.c.batch;
        d += p.d.batch;
    }
}
