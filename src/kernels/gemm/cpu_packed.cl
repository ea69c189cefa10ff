// Products on CPU devices. One work-item owns a block of C, block_rows x block_columns, in one of `splits` parts of k:
//
//                              +------+------+--    chunk of k: B's block in panels of TILE_COLUMNS columns, which
//                              |panel |panel |..    rest in the second-level cache while all rows pass by
//                              +------+------+--
//     a strip of A's rows,     | tile | tile |..    a tile of TILE_ROWS x TILE_COLUMNS sums lives in registers; between
//     packed                   | tile | tile |..    chunks it rests in C, or in `sums` where C does not hold sums
//     the next strip           | tile | tile |..
//
// The last rows of a block make tiles of 8 or 4 rows, and a panel of few columns is multiplied by halves.
// Options: those of problem.cl, and -DTILE_ROWS.
// From one packed row of A to the next: the longest chunk, and as much as keeps rows in other cache sets.
#define A_STEP 400
#include "kernels/gemm/packing.cl"

// Where B's panels lie: a block of them in local memory, or in the work-item's own part of `panels`; or in `panels`,
// packed by pack_b; or one at a time in local memory, where a strip has all rows of the block.
#define PANELS_LOCAL 0
#define PANELS_OWN 1
#define PANELS_SHARED 2
#define PANELS_SINGLE 3

typedef struct {
    long block_rows, block_columns;   // block_columns is a multiple of TILE_COLUMNS
    long splits, split_depth;         // parts of k, each split_depth long
    long depth;                       // of a chunk
    long strip;                       // rows of A that are packed at a time, a multiple of TILE_ROWS
    int panels_place;
    int direct;                       // A, with contiguous rows, is read where it lies, but for rows that fill no four
    int plain;                        // C's elements are the sums: no scalars, no addend, no conversion
} packed_plan;

// Where the panel of column j starts in the packed B: [batch][chunk][panel][k][TILE_COLUMNS].
static inline ulong panel_at(const gemm_problem* p, long batch, long k, long j, int depth)
{
    const long padded = (p->n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    return (batch * p->k + k) * padded + j * depth;
}

// One work-item packs one panel of one chunk.
__kernel TILE_TASK
void pack_b(const __global storage_t(X)* b, ulong b_offset, __global REAL* panels, ulong panels_offset, gemm_problem p,
            packed_plan plan)
{
    b += b_offset;
    panels += panels_offset;
    const long j = (long)get_group_id(0) * TILE_COLUMNS, batch = get_group_id(2);
    const long k = (long)get_group_id(1) * plan.depth;
    const int depth = (int)min(p.k - k, plan.depth);
    pack_panel_to_global(b + batch * p.b.batch + AT(p.b, k, j), p.b, p.n - j, depth, elements_from(p.b, p.k, p.n, k, j),
                         panels + panel_at(&p, batch, k, j, depth));
}

// A part of a strip of A is asked from memory: what falls to panel j of `columns`.
static inline void fetch_ahead(const __global storage_t(X)* a, matrix_layout layout, long rows, int depth, long j,
                               long columns)
{
    const int by_columns = layout.row == 1 && layout.column != 1;
    if (!by_columns && layout.column != 1)
        return;
    const long lines = by_columns ? depth : rows, length = by_columns ? rows : depth;
    const long step = by_columns ? layout.column : layout.row;
    const long end = lines * min(j + TILE_COLUMNS, columns) / columns;
    for (long line = lines * j / columns; line < end; ++line)
        for (long e = 0; e < length; e += TILE_LANES)
            prefetch(a + line * step + e, TILE_LANES);
}

// Adds to the tile's first rows, of A's elements at a + row * a_step + k.
#define ADD_PRODUCTS(N, half, a, a_step, panel) TILE_MULTIPLY_OF(N, half, a, a_step, 1, panel, depth)

__kernel TILE_TASK
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global REAL* panels, ulong panels_offset, __global storage_t(X)* c, ulong c_offset,
              const __global storage_t(X)* d, ulong d_offset, __global REAL* sums, ulong sums_offset, gemm_problem p,
              packed_plan plan, REAL alpha, REAL beta, __local REAL* memory)
{
    const c_block block = find_block(&p, get_group_id(0), plan.block_rows, plan.block_columns, plan.splits);
    const long i0 = block.i, j0 = block.j, split = block.split, batch = block.batch;
    const long rows = block.rows, columns = block.columns;
    const long k_begin = split * plan.split_depth, k_end = min(p.k, k_begin + plan.split_depth);

    a += a_offset + batch * p.a.batch + i0 * p.a.row;
    b += b_offset + batch * p.b.batch + j0 * p.b.column;
    c += c_offset + batch * p.c.batch + AT(p.c, i0, j0);
    d += d_offset + batch * p.d.batch + AT(p.d, i0, j0);
    panels += panels_offset;
    if (plan.panels_place == PANELS_OWN)
        panels += get_group_id(0) * (ulong)(plan.depth * plan.block_columns);
    // Sums rest in C itself, or in `sums`, [split][batch][m][n].
    const int in_c = plan.plain && plan.splits == 1;
    const long sums_row = in_c ? p.c.row : p.n;
    if (in_c)
        sums = (__global REAL*)c;
    else
        sums += sums_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;

    __local REAL* tile = memory;                                // a tile that is not whole, or waits for its epilogue
    __local REAL* packed_strip = tile + TILE_ROWS * TILE_COLUMNS;   // strip x A_STEP
    __local REAL* local_panels = packed_strip + plan.strip * A_STEP;   // block_columns x depth, for PANELS_LOCAL

    for (long k = k_begin; k < k_end; k += plan.depth) {
        const int depth = (int)min(k_end - k, plan.depth);
        const int last = k + depth >= k_end;
        if (plan.panels_place == PANELS_LOCAL || plan.panels_place == PANELS_OWN)
            for (long j = 0; j < columns; j += TILE_COLUMNS) {
                const __global storage_t(X)* source = b + AT(p.b, k, j);
                const long readable = elements_from(p.b, p.k, p.n, k, j0 + j);
                if (plan.panels_place == PANELS_LOCAL)
                    pack_panel_to_local(source, p.b, columns - j, depth, readable, local_panels + j * depth);
                else
                    pack_panel_to_global(source, p.b, columns - j, depth, readable, panels + j * depth);
            }
        const __global REAL* chunk = panels;
        if (plan.panels_place == PANELS_SHARED)
            chunk += panel_at(&p, batch, k, j0, depth);
        for (long strip = 0; strip < rows; strip += plan.strip) {
            const long strip_end = min(strip + plan.strip, rows);
            const int direct = plan.direct && (strip_end - strip) % 4 == 0;
            if (!direct)
                pack_a(a + AT(p.a, strip, k), p.a, strip_end - strip, p.m - i0 - strip, depth,
                       elements_from(p.a, p.m, p.k, i0 + strip, k), packed_strip);
            // A's next strip is fetched ahead, a part of it with each panel.
            const int ahead = !plan.direct && columns > TILE_COLUMNS && columns <= 1024 && strip_end < rows;
            for (long j = 0; j < columns; j += TILE_COLUMNS) {
                if (ahead)
                    fetch_ahead(a + AT(p.a, strip_end, k), p.a, min(rows - strip_end, plan.strip), depth, j, columns);
                if (plan.panels_place == PANELS_SINGLE)
                    pack_panel_to_local(b + AT(p.b, k, j), p.b, columns - j, depth,
                                        elements_from(p.b, p.k, p.n, k, j0 + j), local_panels);
                for (long i = strip; i < strip_end; i += TILE_ROWS) {
                    const int height = (int)min(strip_end - i, (long)TILE_ROWS);
                    const int whole = height == TILE_ROWS && columns - j >= TILE_COLUMNS;
                    __global REAL* resting = sums + i * sums_row + j;
                    const __local REAL* restrict packed_a = packed_strip + (i - strip) * A_STEP;
                    TILE_DECLARE
                    if (k > k_begin) {
                        if (whole) {
                            TILE_LOAD(resting, sums_row)
                        } else {
                            fetch_sums(tile, height, columns - j, resting, sums_row);
                            TILE_LOAD(tile, TILE_COLUMNS)
                        }
                    }
                    if (plan.panels_place == PANELS_LOCAL || plan.panels_place == PANELS_SINGLE) {
                        const __local REAL* restrict panel =
                            local_panels + (plan.panels_place == PANELS_LOCAL ? j * depth : 0);
                        if (direct) {
                            const __global REAL* restrict rows_of_a = (const __global REAL*)a + AT(p.a, i, k);
                            TILE_FOR(height, columns - j, ADD_PRODUCTS, rows_of_a, p.a.row, panel)
                        } else {
                            TILE_FOR(height, columns - j, ADD_PRODUCTS, packed_a, A_STEP, panel)
                        }
                    } else {
                        const __global REAL* restrict panel = chunk + j * depth;
                        TILE_FOR(height, columns - j, ADD_PRODUCTS, packed_a, A_STEP, panel)
                    }
                    const int rests = in_c || !last || plan.splits > 1;
                    if (rests && whole) {
                        TILE_STORE(resting, sums_row)
                        continue;
                    }
                    TILE_STORE(tile, TILE_COLUMNS)
                    if (rests)
                        keep_sums(tile, height, columns - j, resting, sums_row);
                    else
                        finish_tile(tile, height, columns - j, c + AT(p.c, i, j), d + AT(p.d, i, j), &p, alpha, beta);
                }
            }
        }
    }
}
