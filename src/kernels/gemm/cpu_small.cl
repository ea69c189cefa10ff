// Batches of small products on CPU devices. A work-item computes some matrices of the batch, one after the other: A and
// a panel of B are packed, and tiles of 8 or 4 rows are multiplied in registers and stored.
// Options: those of problem.cl; -DPARTS=2: complex matrices, of which X is the type of a part and whose strides are
// counted in parts. A number a of A times a row of B is Re a times the row and Im a times the row turned by i, both of
// which lie in the panel, so that A is read as twice as many real columns.
#define A_STEP 80   // SMALL_DEPTH numbers in packed rows, and as much as keeps rows in other cache sets
#define TILE_ROWS 8
#include "kernels/gemm/packing.cl"

typedef struct {
    long each;   // matrices of a work-item
    int plain;   // rows of C are of the sums: no scalars, no addend
} small_plan;

// How many elements follow an element of the batch in memory, itself counted, `inside` of them in its own matrix; 0 if
// nobody knows.
static inline long elements_in_batch(matrix_layout layout, long inside, long matrices_behind)
{
    return inside > 0 && layout.batch >= 0 ? inside + matrices_behind * layout.batch : inside;
}

#if PARTS == 2
typedef VECTOR_OF(REAL, 2) number;

// Each number of a vector times i.
static inline tile_vector turned(tile_vector v)
{
    tile_vector result;
    result.even = -v.odd;
    result.odd = v.even;
    return result;
}

// `count` parts of numbers that are `step` parts apart; anything in the other lanes.
static inline tile_vector get_numbers(const __global REAL* p, long step, long count, long readable)
{
    if (step == 2)
        return get_part_of_row(p, 1, count, readable);
    REAL values[TILE_LANES];
    for (int i = 0; i < TILE_LANES; ++i)
        values[i] = i < count ? p[i / 2 * step + (i & 1)] : 0;
    return TILE_VLOAD(0, values);
}

static inline void put_numbers(tile_vector v, __global REAL* p, long step, long count)
{
    if (step == 2) {
        put_row(v, p, 1, count);
        return;
    }
    REAL values[TILE_LANES];
    TILE_VSTORE(v, 0, values);
    for (int i = 0; i < TILE_LANES && i < count; ++i)
        p[i / 2 * step + (i & 1)] = values[i];
}

static inline tile_vector times(tile_vector v, number factor)
{
    return factor.x == 1 && factor.y == 0 ? v : v * factor.x + turned(v) * factor.y;   // infinity times 0 is NaN
}

static inline void finish(tile_vector v, __global REAL* c, const __global REAL* d, const gemm_problem* p, long count,
                          number alpha, number beta)
{
    v = times(v, alpha);
    if (p->add_d)
        v += times(get_numbers(d, p->d.column, count, 0), beta);
    put_numbers(v, c, p->c.column, count);
}

static inline void pack_panel(const __global REAL* b, const gemm_problem* p, long columns, long readable,
                              __local REAL* panel)
{
    for (int k = 0; k < p->k; ++k)
        for (int j = 0; j < TILE_COLUMNS && j < columns; j += TILE_LANES) {
            const long at = AT(p->b, k, (long)j / 2);
            const tile_vector v = get_numbers(b + at, p->b.column, columns - j, readable - at);
            TILE_VSTORE(v, 0, panel + 2 * k * TILE_COLUMNS + j);
            TILE_VSTORE(turned(v), 0, panel + (2 * k + 1) * TILE_COLUMNS + j);
        }
}

static inline void pack_rows(const __global REAL* a, const gemm_problem* p, long readable, __local REAL* packed)
{
    for (long i = 0; i < (p->m + 3) / 4 * 4; ++i)
        for (int k = 0; k < 2 * p->k; k += TILE_LANES) {
            const long at = AT(p->a, i, (long)k / 2);
            TILE_VSTORE(i < p->m ? get_numbers(a + at, p->a.column, 2 * p->k - k, readable - at) : (tile_vector)0, 0,
                        packed + i * A_STEP + k);
        }
}
#else
typedef REAL number;
#define finish finish_row

static inline void pack_panel(const __global storage_t(X)* b, const gemm_problem* p, long columns, long readable,
                              __local REAL* panel)
{
    pack_panel_to_local(b, p->b, columns, (int)p->k, readable, panel);
}

static inline void pack_rows(const __global storage_t(X)* a, const gemm_problem* p, long readable,
                             __local REAL* packed)
{
    pack_a(a, p->a, p->m, p->m, (int)p->k, readable, packed);
}
#endif

// Whether elements of C are what sums are kept in.
#define STORES_SUMS (sizeof(storage_t(X)) == sizeof(REAL))

// A tile of N rows: to C where it is whole there, to `tile` otherwise.
#define SMALL_TILE(N, half, whole_columns, target)                                                          \
    {                                                                                                       \
        TILE_DECLARE_OF(N)                                                                                  \
        TILE_MULTIPLY_OF(N, half, strip, A_STEP, 1, panel, depth)                                           \
        whole = STORES_SUMS && plan.plain && rows >= N && columns == (whole_columns);                        \
        if (whole) {                                                                                        \
            TILE_STORE_OF(N, half, target, p.c.row)                                                         \
        } else {                                                                                            \
            TILE_STORE_OF(N, half, tile, TILE_COLUMNS)                                                      \
        }                                                                                                   \
    }
#define SMALL_TILE_OF(half, whole_columns)                                                                  \
    if (rows > 4)                                                                                           \
        SMALL_TILE(8, half, whole_columns, (__global REAL*)to)                                              \
    else                                                                                                    \
        SMALL_TILE(4, half, whole_columns, (__global REAL*)to)

__kernel TILE_TASK
void multiply(const __global storage_t(X)* a, ulong a_offset, const __global storage_t(X)* b, ulong b_offset,
              __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset, gemm_problem p,
              number alpha, number beta, small_plan plan, __local REAL* memory)
{
    const long first = (long)get_group_id(0) * plan.each, end = min(first + plan.each, p.batch);
    const int depth = (int)p.k * PARTS;
    __local REAL* tile = memory;
    __local REAL* panel = tile + TILE_ROWS * TILE_COLUMNS;
    __local REAL* packed = panel + depth * TILE_COLUMNS;
    a += a_offset + first * p.a.batch;
    b += b_offset + first * p.b.batch;
    c += c_offset + first * p.c.batch;
    d += d_offset + first * p.d.batch;
    for (long one = first; one < end; ++one) {
        const long behind = p.batch - 1 - one;
        pack_rows(a, &p, elements_in_batch(p.a, elements_from(p.a, p.m, p.k, 0, 0), behind), packed);
        for (long j = 0; j < p.n; j += TILE_COLUMNS / PARTS) {
            const long columns = min((p.n - j) * PARTS, (long)TILE_COLUMNS);
            pack_panel(b + AT(p.b, 0, j), &p, columns,
                       elements_in_batch(p.b, elements_from(p.b, p.k, p.n, 0, j), behind), panel);
            for (long i = 0; i < p.m; i += TILE_ROWS) {
                const int rows = (int)min(p.m - i, (long)TILE_ROWS);
                const __local REAL* restrict strip = packed + i * A_STEP;
                __global storage_t(X)* to = c + AT(p.c, i, j);
                int whole;
                if (columns > TILE_LANES) {
                    SMALL_TILE_OF(BOTH_HALVES, TILE_COLUMNS)
                } else {
                    SMALL_TILE_OF(LOW_HALF, TILE_LANES)
                }
                if (whole)
                    continue;
                if (plan.plain)
                    for (int r = 0; r < rows; ++r)
                        for (int part = 0; part < columns; part += TILE_LANES)
                            put_row(TILE_VLOAD(0, tile + r * TILE_COLUMNS + part), to + r * p.c.row + part, 1,
                                    columns - part);
                else
                    for (long r = 0; r < rows; ++r)
                        for (long part = 0; part < columns; part += TILE_LANES)
                            finish(TILE_VLOAD(0, tile + r * TILE_COLUMNS + part), to + AT(p.c, r, part / PARTS),
                                   d + AT(p.d, i + r, j + part / PARTS), &p, columns - part, alpha, beta);
            }
        }
        a += p.a.batch;
        b += p.b.batch;
        c += p.c.batch;
        d += p.d.batch;
    }
}
