// Products of 2 to 128 rows of bfloat16 with a matrix whose columns lie along k (a linear layer of a small batch) on
// CPUs with tile registers (amx_tiles.cl), bound by the reading of B: sixteen of its columns are rows of a tile where
// they lie, 32 k at a time, and A, turned into tiles once by each work-item, is what they are multiplied with, 32 rows
// at a time: for those behind the first 32, columns of B are read from a cache.
//
//     B': 16 columns x 32 k        A': 16 pairs of k x 16 rows        sums: [column][row]
//
// B has at least 16 columns: the last ones are computed once more where there are fewer.
// Options: -DX=bfloat16 -DREAL=float -DROW_TILES=1 or 2.

#include "kernels/gemm/problem.cl"
#include "kernels/gemm/micro_kernel.cl"
#include "kernels/gemm/lanes.cl"
#include "kernels/gemm/amx_tiles.cl"
#include "kernels/gemm/bfloat16_words.cl"

#define SIDE 16           // rows or columns of a tile
#define DEPTH 32          // k of a tile
#define TILE 1024         // bytes
#define AHEAD 512         // bytes of a column that are asked for before they are read

// Adds the products of a tile of columns and a tile of rows.
#define LOAD_COLUMNS(r, from, step)                                                                         \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #r ::"r"(from), "r"(step) : "memory");
#define LOAD_ROWS(r, from) LOAD_COLUMNS(r, from, 64ul)
#define MULTIPLY(rows, columns, sums)                                                                       \
    __asm__ volatile("tdpbf16ps %%tmm" #rows ", %%tmm" #columns ", %%tmm" #sums ::: "memory");
#define STORE_SUMS(r, to) __asm__ volatile("tilestored %%tmm" #r ", (%0,%1,1)" ::"r"(to), "r"(64ul) : "memory");

// 32 k of two tiles of columns, at addresses whose columns are `step` bytes apart.
static inline void multiply_depth(ulong upper, ulong lower, ulong step, ulong rows)
{
    LOAD_COLUMNS(4, upper, step)
    LOAD_ROWS(6, rows)
    MULTIPLY(6, 4, 0)
    LOAD_COLUMNS(5, lower, step)
    MULTIPLY(6, 5, 1)
#if ROW_TILES == 2
    LOAD_ROWS(7, rows + TILE)
    MULTIPLY(7, 4, 2)
    MULTIPLY(7, 5, 3)
#endif
}

static inline void ask_for(ulong columns, ulong step)
{
    _Pragma("unroll") for (int j = 0; j < SIDE; ++j) __asm__ volatile("prefetcht0 (%0)" ::"r"(columns + j * step));
}

// Sums [column][row] of columns from `j` on, those before `begin` left out, and rows from i on.
static inline void finish_turned(const float16* sums, const gemm_problem* p, __global storage_t(X)* c,
                               const __global storage_t(X)* d, long2 place, long begin, float2 scalars)
{
    const long i = place.x, j = place.y, skipped = begin - j;
    float16 v[SIDE], u[SIDE];
    _Pragma("unroll") for (int e = 0; e < SIDE; ++e) v[e] = sums[e];
    TURN_WORDS(u, v)
    float16 lines[SIDE];
    _Pragma("unroll") for (int e = 0; e < SIDE; ++e) lines[e] = v[e];
    for (long r = 0; r < SIDE && i + r < p->m; ++r) {
        if (skipped == 0) {
            finish_row(lines[r], c + AT(p->c, i + r, j), d + AT(p->d, i + r, j), p, SIDE, scalars.x, scalars.y);
            continue;
        }
        for (long e = skipped; e < SIDE; ++e)
            finish_element(((const float*)lines)[r * SIDE + e], c + AT(p->c, i + r, j + e), d + AT(p->d, i + r, j + e),
                           p, scalars.x, scalars.y);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply(const __global storage_t(X)* a, ulong a_offset, const __global storage_t(X)* b, ulong b_offset,
              __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset, gemm_problem p,
              float alpha, float beta, long item_columns, __local uint* rows)
{
    const long begin = (long)get_group_id(0) * item_columns, end = min(p.n, begin + item_columns);
    const long batch = get_group_id(1), blocks = (p.k + DEPTH - 1) / DEPTH, whole = p.k / DEPTH;
    float16 sums[2 * ROW_TILES * SIDE];
    ushort edge[2 * SIDE * DEPTH] __attribute__((aligned(64)));   // of columns that end within a tile
    a += a_offset + batch * p.a.batch;
    b += b_offset + batch * p.b.batch;
    c += c_offset + batch * p.c.batch;
    d += d_offset + batch * p.d.batch;
    const long row_tiles = (p.m + ROW_TILES * SIDE - 1) / (ROW_TILES * SIDE) * ROW_TILES;
    for (long block = 0; block < blocks; ++block)
        for (long i = 0; i < row_tiles; ++i)
            turn_columns_to_local(a + i * SIDE * p.a.row + block * DEPTH, p.a.row, p.m - i * SIDE,
                                  p.k - block * DEPTH, rows + (block * row_tiles + i) * (TILE / 4));
    const ulong step = p.b.column * sizeof(ushort), tiles = (ulong)rows, length = whole * 64;
    amx_begin();
    for (long j = begin; j < end; j += 2 * SIDE) {
        const long upper = min(j, p.n - SIDE), lower = min(j + SIDE, p.n - SIDE);
        const ulong of_upper = (ulong)(b + upper * p.b.column), of_lower = (ulong)(b + lower * p.b.column);
        if (whole < blocks)
            for (int e = 0; e < SIDE; ++e) {
                const long k = whole * DEPTH;
                vstore16(as_uint16(line_words(b + (upper + e) * p.b.column + k, p.k - k)), e, (uint*)edge);
                vstore16(as_uint16(line_words(b + (lower + e) * p.b.column + k, p.k - k)), SIDE + e, (uint*)edge);
            }
        for (long i = 0; i < row_tiles; i += ROW_TILES) {
            const ulong of_rows = tiles + i * TILE;
            __asm__ volatile(AMX_ZERO ::: "memory");
            for (ulong at = 0; at < length; at += 64) {
                if (i == 0) {   // Behind the columns' ends come the next ones' beginnings.
                    const ulong ahead = at + AHEAD < length ? at + AHEAD : at + AHEAD - length + 2 * SIDE * step;
                    ask_for(of_upper + ahead, step);
                    ask_for(of_lower + ahead, step);
                }
                multiply_depth(of_upper + at, of_lower + at, step, of_rows + at * row_tiles * (TILE / 64));
            }
            if (whole < blocks)
                multiply_depth((ulong)edge, (ulong)edge + TILE, 64, of_rows + length * row_tiles * (TILE / 64));
            STORE_SUMS(0, (ulong)sums)
            STORE_SUMS(1, (ulong)sums + TILE)
#if ROW_TILES == 2
            STORE_SUMS(2, (ulong)sums + 2 * TILE)
            STORE_SUMS(3, (ulong)sums + 3 * TILE)
#endif
            for (int r = 0; r < ROW_TILES; ++r) {
                const long row = (i + r) * SIDE;
                finish_turned(sums + 2 * r * SIDE, &p, c, d, (long2)(row, upper), j, (float2)(alpha, beta));
                if (j + SIDE < end)
                    finish_turned(sums + (2 * r + 1) * SIDE, &p, c, d, (long2)(row, lower), j + SIDE,
                                  (float2)(alpha, beta));
            }
        }
    }
    amx_end();
}
