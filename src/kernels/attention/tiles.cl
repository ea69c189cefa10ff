// Products of rows of STEP elements in local memory and panels of TILE_COLUMNS lanes there, by gemm's register tiles;
// of a panel that is not `wide` only the low half of the lanes.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"
#include "kernels/attention/lanes.cl"

// to[r * TILE_COLUMNS + lane] = rows[r] . panel[.][lane] for `count` rows (four at a time are readable).
static inline void score_panel(const __local REAL* restrict rows, int count, const __local REAL* restrict panel,
                               int depth, __local REAL* restrict to, int wide)
{
    for (int r = 0; r < count; r += TILE_ROWS) {
        const __local REAL* restrict from = rows + r * STEP;
        __local REAL* restrict target = to + r * TILE_COLUMNS;
        TILE_UPDATE(count - r, wide ? TILE_COLUMNS : TILE_LANES, TILE_ZERO, target, TILE_COLUMNS, from, STEP, 1, panel,
                    depth)
    }
}

#define RESCALED(address, half) TILE_VLOAD(0, address) * ((half) ? scale_high : scale_low)

// Adds `depth` rows, each times its row of the panel, to sums of `size` elements (four at a time are readable), which
// are multiplied by `scale`, if any, before.
static inline void add_rows(const __local REAL* restrict rows, int depth, const __local REAL* restrict panel, int size,
                            __local REAL* restrict sums, const __local REAL* restrict scale, int wide)
{
    const tile_vector scale_low = scale ? TILE_VLOAD(0, scale) : (tile_vector)1;
    const tile_vector scale_high = scale ? TILE_VLOAD(0, scale + TILE_LANES) : (tile_vector)1;
    for (int r = 0; r < size; r += TILE_ROWS) {
        const __local REAL* restrict from = rows + r;
        __local REAL* restrict target = sums + r * TILE_COLUMNS;
        TILE_UPDATE(size - r, wide ? TILE_COLUMNS : TILE_LANES, RESCALED, target, TILE_COLUMNS, from, 1, STEP, panel,
                    depth)
    }
}

// The lanes of one half of a panel divided by `divisor` (0 where that is 0), to rows of y.
static inline void put_panel(const __local REAL* sums, tile_vector divisor, __global storage_t(X)* y,
                             heads_layout layout, long rows, long size)
{
    const tile_vector inverse = divisor == (tile_vector)0 ? (tile_vector)0 : (REAL)1 / divisor;
    for (long e = 0; e < size; e += TILE_LANES) {
        tile_vector v[TILE_LANES], u[TILE_LANES];
#define GET_SUMS(i) v[i] = TILE_VLOAD(0, sums + min(e + i, size - 1) * TILE_COLUMNS) * inverse;
        EACH_LANE(GET_SUMS)
        EACH_PAIR(ZIP_PAIR, u, v)
        EACH_PAIR(ZIP_PAIR, v, u)
        EACH_PAIR(ZIP_PAIR, u, v)
        LAST_ZIP
#define PUT_QUERY(i)                                                                                        \
    if (i < rows)                                                                                           \
        put_row(TRANSPOSED[i], y + i * layout.row + e * layout.column, layout.column, size - e);
        EACH_LANE(PUT_QUERY)
    }
}

static inline void clear(__local REAL* sums, long count)
{
    for (long i = 0; i < count; i += TILE_LANES)
        TILE_VSTORE((tile_vector)0, 0, sums + i);
}

// How the owners of queries cut a problem.
typedef struct {
    long rows, keys;   // of queries, a multiple of TILE_COLUMNS; of keys in a block, a multiple of 12
    long blocks;       // of queries in each head
} forward_plan;
