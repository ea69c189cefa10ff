// Parts of matrices packed for products on a CPU, and tiles of sums on their way to C. The includer defines A_STEP, the
// elements from one packed row of A to the next. Options: those of problem.cl and micro_kernel.cl.
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"

DEFINE_TRANSPOSE_BLOCK(transpose_to_local, __local)
DEFINE_TRANSPOSE_BLOCK(transpose_to_global, __global)

// How many elements follow element (i, j) of a matrix of rows x columns in memory, itself counted; 0 if nobody knows.
static inline long elements_from(matrix_layout layout, long rows, long columns, long i, long j)
{
    if (layout.row <= 0 || layout.column <= 0)
        return 0;
    return (rows - 1 - i) * layout.row + (columns - 1 - j) * layout.column + 1;
}

// Columns [0, columns) and rows [0, depth) of B to a panel, panel[k * TILE_COLUMNS + j], anything beyond the columns;
// `readable` elements of B follow.
#define DEFINE_PACK_PANEL(name, transpose, SPACE)                                                           \
    static inline void name(const __global storage_t(X)* b, matrix_layout layout, long columns, int depth,   \
                     long readable, SPACE REAL* panel)                                                      \
    {                                                                                                       \
        const int lanes = columns > TILE_LANES ? TILE_COLUMNS : TILE_LANES;                                 \
        if (layout.row == 1 && layout.column != 1) {                                                        \
            for (int j = 0; j < lanes; j += TILE_LANES)                                                     \
                for (int k = 0; k < depth; k += TILE_LANES) {                                               \
                    const long at = j * layout.column + k;                                                  \
                    transpose(b + at, layout.column, columns - j, depth - k, readable - at,                 \
                              panel + k * TILE_COLUMNS + j, TILE_COLUMNS, depth - k);                       \
                }                                                                                           \
            return;                                                                                         \
        }                                                                                                   \
        if (layout.column == 1 && columns >= TILE_COLUMNS) {                                                \
            for (int k = 0; k < depth; ++k) {                                                               \
                TILE_VSTORE(LOAD_LANES(b + k * layout.row), 0, panel + k * TILE_COLUMNS);                   \
                TILE_VSTORE(LOAD_LANES(b + k * layout.row + TILE_LANES), 0, panel + k * TILE_COLUMNS + TILE_LANES); \
            }                                                                                               \
            return;                                                                                         \
        }                                                                                                   \
        for (int k = 0; k < depth; ++k)                                                                     \
            for (int j = 0; j < lanes; j += TILE_LANES) {                                                   \
                const long at = AT(layout, k, (long)j);                                                     \
                TILE_VSTORE(get_part_of_row(b + at, layout.column, columns - j, readable - at), 0,          \
                            panel + k * TILE_COLUMNS + j);                                                  \
            }                                                                                               \
    }
DEFINE_PACK_PANEL(pack_panel_to_local, transpose_to_local, __local)
DEFINE_PACK_PANEL(pack_panel_to_global, transpose_to_global, __global)

// Rows of A, packed[i * A_STEP + k], up to whole fours of them, the last ones zero; `all_rows` rows and `readable`
// elements of A follow.
static inline void pack_a(const __global storage_t(X)* a, matrix_layout layout, long rows, long all_rows, int depth,
                          long readable, __local REAL* packed)
{
    if (layout.row == 1 && layout.column != 1) {
        for (int k = 0; k < depth; k += TILE_LANES)
            for (long i = 0; i < rows; i += TILE_LANES) {
                const long at = i + k * layout.column;
                transpose_to_local(a + at, layout.column, depth - k, all_rows - i, readable - at,
                                   packed + i * A_STEP + k, A_STEP, rows - i);
            }
    } else {
        for (long i = 0; i < rows; ++i) {
            int k = 0;
            if (layout.column == 1)
                for (; k + TILE_LANES <= depth; k += TILE_LANES)
                    TILE_VSTORE(LOAD_LANES(a + i * layout.row + k), 0, packed + i * A_STEP + k);
            for (; k < depth; k += TILE_LANES) {
                const long at = AT(layout, i, (long)k);
                TILE_VSTORE(get_part_of_row(a + at, layout.column, depth - k, readable - at), 0,
                            packed + i * A_STEP + k);
            }
        }
    }
    for (long i = rows; i % 4 != 0; ++i)
        for (int k = 0; k < depth; k += TILE_LANES)
            TILE_VSTORE((tile_vector)0, 0, packed + i * A_STEP + k);
}

// The epilogue of a tile's rows, from local memory to C.
static inline void finish_tile(const __local REAL* tile, int rows, long columns, __global storage_t(X)* c,
                        const __global storage_t(X)* d, const gemm_problem* p, REAL alpha, REAL beta)
{
    for (long i = 0; i < rows; ++i)
        for (int j = 0; j < TILE_COLUMNS && j < columns; j += TILE_LANES)
            finish_row(TILE_VLOAD(0, tile + i * TILE_COLUMNS + j), c + AT(p->c, i, (long)j),
                       d + AT(p->d, i, (long)j), p, columns - j, alpha, beta);
}

// A tile that is not whole, between registers (by way of local memory) and where its sums rest.
static inline void fetch_sums(__local REAL* tile, int rows, long columns, const __global REAL* sums, long row_step)
{
    for (int i = 0; i < TILE_ROWS; ++i)
        for (int j = 0; j < TILE_COLUMNS; j += TILE_LANES)
            TILE_VSTORE(i < rows ? get_sums(sums + i * row_step + j, columns - j) : (tile_vector)0, 0,
                        tile + i * TILE_COLUMNS + j);
}
static inline void keep_sums(const __local REAL* tile, int rows, long columns, __global REAL* sums, long row_step)
{
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < TILE_COLUMNS && j < columns; j += TILE_LANES)
            put_sums(TILE_VLOAD(0, tile + i * TILE_COLUMNS + j), sums + i * row_step + j, columns - j);
}

// Where the block of a work-item begins in C, and its size: columns fastest, then rows, parts of k, batch.
typedef struct {
    long i, j, rows, columns, split, batch;
} c_block;
static inline c_block find_block(const gemm_problem* p, long id, long block_rows, long block_columns, long splits)
{
    const long column_blocks = (p->n + block_columns - 1) / block_columns;
    const long row_blocks = (p->m + block_rows - 1) / block_rows, rest = id / column_blocks / row_blocks;
    c_block block;
    block.j = id % column_blocks * block_columns;
    block.i = id / column_blocks % row_blocks * block_rows;
    block.rows = min(p->m - block.i, block_rows);
    block.columns = min(p->n - block.j, block_columns);
    block.split = rest % splits;
    block.batch = rest / splits;
    return block;
}
