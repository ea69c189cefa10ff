// Products on CPU devices. One work-item owns a block of C, block_rows x block_columns, over one of `splits` parts of k:
//
//                              +------+------+--    B in panels of TILE_COLUMNS columns: packed before by pack_b for
//            chunk of DEPTH    |panel |panel |..    all blocks, or here, panel by panel, when few blocks need it
//           +-----------+      +------+------+--
//     rows  | A, packed |      | tile | tile |..    tiles of TILE_ROWS x TILE_COLUMNS live in registers; between chunks
//           | here      |      | tile | tile |..    of k they rest in local memory
//           +-----------+      +------+------+--
//
// Options: those of problem.cl, and -DTILE_ROWS.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"

#define DEPTH 256

typedef struct {
    long block_rows, block_columns;   // multiples of TILE_ROWS and TILE_COLUMNS
    long splits, split_depth;         // parts of k, each split_depth long (a multiple of DEPTH unless there is one)
    int packed_b;                     // pack_b ran
    int plain_store;                  // whole tiles go to C as they are: no scalars, no addend, no conversion
} packed_plan;

DEFINE_TRANSPOSE_BLOCK(transpose_to_local, __local)
DEFINE_TRANSPOSE_BLOCK(transpose_to_global, __global)

// Columns [0, columns) and rows [0, depth) of B to a panel, panel[k * TILE_COLUMNS + j]; zero beyond the columns.
#define DEFINE_PACK_PANEL(name, transpose, SPACE)                                                           \
    static inline void name(const __global storage_t(X)* b, matrix_layout layout, long columns, int depth,   \
                     SPACE REAL* panel)                                                                     \
    {                                                                                                       \
        if (layout.row == 1 && layout.column != 1) {                                                        \
            for (int j = 0; j < TILE_COLUMNS; j += TILE_LANES)                                              \
                for (int k = 0; k < depth; k += TILE_LANES)                                                 \
                    transpose(b + j * layout.column + k, layout.column, columns - j, depth - k,             \
                              panel + k * TILE_COLUMNS + j, TILE_COLUMNS, depth - k);                       \
            return;                                                                                         \
        }                                                                                                   \
        for (int k = 0; k < depth; ++k)                                                                     \
            for (int j = 0; j < TILE_COLUMNS; j += TILE_LANES)                                              \
                TILE_VSTORE(get_row(b + AT(layout, k, (long)j), layout.column, columns - j), 0,             \
                            panel + k * TILE_COLUMNS + j);                                                  \
    }
DEFINE_PACK_PANEL(pack_panel_to_local, transpose_to_local, __local)
DEFINE_PACK_PANEL(pack_panel_to_global, transpose_to_global, __global)

// Where the panel of column j starts in the packed B: [batch][chunk][panel][k][TILE_COLUMNS].
static inline ulong panel_at(const gemm_problem* p, long batch, long k, long j, int depth)
{
    const long padded = (p->n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    return (batch * p->k + k) * padded + j * depth;
}

// One work-item packs one panel of one chunk.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pack_b(const __global storage_t(X)* b, ulong b_offset, __global REAL* panels, ulong panels_offset, gemm_problem p)
{
    b += b_offset;
    panels += panels_offset;
    const long j = (long)get_group_id(0) * TILE_COLUMNS, k = (long)get_group_id(1) * DEPTH, batch = get_group_id(2);
    const int depth = (int)min(p.k - k, (long)DEPTH);
    pack_panel_to_global(b + batch * p.b.batch + AT(p.b, k, j), p.b, p.n - j, depth,
                         panels + panel_at(&p, batch, k, j, depth));
}

// Rows of A to local memory, packed[i * DEPTH + k]; rows beyond A's last, up to a whole tile, are zero.
static inline void pack_a(const __global storage_t(X)* a, matrix_layout layout, long rows, int depth, __local REAL* packed)
{
    if (layout.row == 1 && layout.column != 1) {
        for (long i = 0; i < rows; i += TILE_LANES)
            for (int k = 0; k < depth; k += TILE_LANES)
                transpose_to_local(a + i + k * layout.column, layout.column, depth - k, rows - i,
                                   packed + i * DEPTH + k, DEPTH, rows - i);
    } else {
        for (long i = 0; i < rows; ++i)
            for (int k = 0; k < depth; k += TILE_LANES)
                TILE_VSTORE(get_row(a + AT(layout, i, (long)k), layout.column, depth - k), 0, packed + i * DEPTH + k);
    }
    for (long i = rows; i % TILE_ROWS != 0; ++i)
        for (int k = 0; k < depth; k += TILE_LANES)
            TILE_VSTORE((tile_vector)0, 0, packed + i * DEPTH + k);
}

// The epilogue of a tile's rows, from local memory to C.
static inline void finish_tile(const __local REAL* tile, int rows, long columns, __global storage_t(X)* c,
                        const __global storage_t(X)* d, const gemm_problem* p, REAL alpha, REAL beta)
{
    for (long i = 0; i < rows; ++i)
        for (int j = 0; j < TILE_COLUMNS && j < columns; j += TILE_LANES) {
            tile_vector v = alpha * TILE_VLOAD(0, tile + i * TILE_COLUMNS + j);
            if (p->add_d) {
                const __global storage_t(X)* addend = d + AT(p->d, i, (long)j);
                v += beta * (p->d.column == 0 ? (tile_vector)(REAL)load(X, addend, 0)
                                              : get_row(addend, p->d.column, columns - j));
            }
#if !REAL_IS_INTEGER
            ACTIVATE(tile_vector, v, p->activation)
#endif
            put_row(v, c + AT(p->c, i, (long)j), p->c.column, columns - j);
        }
}

// A tile's rows to the partial product, which has n columns without gaps.
static inline void keep_tile(const __local REAL* tile, int rows, long columns, __global REAL* partial, long n)
{
    for (long i = 0; i < rows; ++i)
        for (int j = 0; j < TILE_COLUMNS && j < columns; ++j)
            partial[i * n + j] = tile[i * TILE_COLUMNS + j];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, const __global REAL* restrict panels, ulong panels_offset, __global storage_t(X)* c,
              ulong c_offset, const __global storage_t(X)* d, ulong d_offset, __global REAL* partial,
              ulong partial_offset, gemm_problem p, packed_plan plan, REAL alpha, REAL beta, __local REAL* memory)
{
    // Which block: columns fastest, then rows, parts of k, batch.
    const long column_blocks = (p.n + plan.block_columns - 1) / plan.block_columns;
    const long row_blocks = (p.m + plan.block_rows - 1) / plan.block_rows;
    long block = get_group_id(0);
    const long j0 = block % column_blocks * plan.block_columns;
    block /= column_blocks;
    const long i0 = block % row_blocks * plan.block_rows;
    block /= row_blocks;
    const long split = block % plan.splits, batch = block / plan.splits;
    const long rows = min(p.m - i0, plan.block_rows), columns = min(p.n - j0, plan.block_columns);
    const long k_begin = split * plan.split_depth, k_end = min(p.k, k_begin + plan.split_depth);

    a += a_offset + batch * p.a.batch + i0 * p.a.row;
    b += b_offset + batch * p.b.batch + j0 * p.b.column;
    c += c_offset + batch * p.c.batch + AT(p.c, i0, j0);
    d += d_offset + batch * p.d.batch + AT(p.d, i0, j0);
    panels += panels_offset;
    partial += partial_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;

    __local REAL* tile = memory;                                   // one finished tile
    __local REAL* packed_a = tile + TILE_ROWS * TILE_COLUMNS;       // block_rows x DEPTH
    __local REAL* panel = packed_a + plan.block_rows * DEPTH;       // DEPTH x TILE_COLUMNS, unless packed_b
    __local REAL* sums = panel + (plan.packed_b ? 0 : DEPTH * TILE_COLUMNS);   // tile after tile, if k has more chunks

    for (long k = k_begin; k < k_end; k += DEPTH) {
        const int depth = (int)min(k_end - k, (long)DEPTH);
        const int last = k + depth >= k_end;
        pack_a(a + k * p.a.column, p.a, rows, depth, packed_a);
        __local REAL* sum = sums;
        for (long j = 0; j < columns; j += TILE_COLUMNS) {
            const __global REAL* restrict b_panel = panels + panel_at(&p, batch, k, j0 + j, depth);
            if (!plan.packed_b)
                pack_panel_to_local(b + AT(p.b, k, j), p.b, columns - j, depth, panel);
            for (long i = 0; i < rows; i += TILE_ROWS, sum += TILE_ROWS * TILE_COLUMNS) {
                const __local REAL* restrict a_rows = packed_a + i * DEPTH;
                TILE_DECLARE
                if (k > k_begin) {
                    TILE_LOAD(sum, TILE_COLUMNS)
                }
                if (plan.packed_b) {
                    TILE_MULTIPLY(a_rows, DEPTH, 1, b_panel, depth)
                } else {
                    TILE_MULTIPLY(a_rows, DEPTH, 1, panel, depth)
                }
                if (!last) {
                    TILE_STORE(sum, TILE_COLUMNS)
                    continue;
                }
                if (plan.plain_store && plan.splits == 1 && rows - i >= TILE_ROWS && columns - j >= TILE_COLUMNS) {
                    __global REAL* target = (__global REAL*)(c + AT(p.c, i, j));
                    TILE_STORE(target, p.c.row)
                    continue;
                }
                TILE_STORE(tile, TILE_COLUMNS)
                const int tile_rows = (int)min(rows - i, (long)TILE_ROWS);
                if (plan.splits > 1)
                    keep_tile(tile, tile_rows, columns - j, partial + i * p.n + j, p.n);
                else
                    finish_tile(tile, tile_rows, columns - j, c + AT(p.c, i, j), d + AT(p.d, i, j), &p, alpha, beta);
            }
        }
    }
}
