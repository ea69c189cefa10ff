// Products on GPUs. A work-group of 16 x 16 work-items owns a TILE x TILE block of C over one of `splits` parts of k:
//
//                   B: TILE_K x TILE in local memory
//                   +--4--+--4--+ ...        each work-item owns WIDTH x WIDTH sums in registers: groups of four
//      A: TILE_K x  | sums of   |            neighbours, 64 apart, so that local memory is read four values at a
//      TILE in      4 one work- |            time and C is written in runs of 64 columns
//      local memory | item      |
//
// While one step of TILE_K is multiplied, the next one is already on its way from global memory into registers.
// Options: those of problem.cl, and -DTILE=64 or 128.
#include "kernels/gemm/problem.cl"

#define TILE_K 16
#define SIDE 16                        // work-items along each side
#define WIDTH (TILE / SIDE)
#define QUADS (WIDTH / 4)
#define PER_ITEM (TILE * TILE_K / (SIDE * SIDE))
#define PITCH (TILE + 4)               // rows of local memory, shifted against bank conflicts
#define REAL4 CLPRIM_CAT(REAL, 4)
#if defined(CLPRIM_FP64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// The e-th element that a work-item fetches of a TILE x TILE_K slab, whichever direction is contiguous: neighbours
// fetch neighbours.
static inline int slab_line(int item, int e, int k_contiguous)
{
    const int at = item + e * SIDE * SIDE;
    return k_contiguous ? at / TILE_K : at % TILE;
}
static inline int slab_depth(int item, int e, int k_contiguous)
{
    const int at = item + e * SIDE * SIDE;
    return k_contiguous ? at % TILE_K : at / TILE;
}

// Fetches a slab; what lies outside the matrix is zero. `lines` and `depth` count what is left of it.
static inline void fetch(REAL* values, const __global storage_t(X)* matrix, long line_step, long k_step, long lines,
                         long depth, int item, int k_contiguous)
{
#pragma unroll
    for (int e = 0; e < PER_ITEM; ++e) {
        const int line = slab_line(item, e, k_contiguous), k = slab_depth(item, e, k_contiguous);
        values[e] = line < lines && k < depth ? (REAL)load(X, matrix, line * line_step + k * k_step) : (REAL)0;
    }
}

static inline void place(__local REAL* slab, const REAL* values, int item, int k_contiguous)
{
#pragma unroll
    for (int e = 0; e < PER_ITEM; ++e)
        slab[slab_depth(item, e, k_contiguous) * PITCH + slab_line(item, e, k_contiguous)] = values[e];
}

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, long splits,
              long split_depth)
{
    const int x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
    const long row_blocks = (p.m + TILE - 1) / TILE;
    const long j0 = (long)get_group_id(0) * TILE, i0 = (long)(get_group_id(1) % row_blocks) * TILE;
    const long split = get_group_id(1) / row_blocks, batch = get_group_id(2);
    const long k_begin = split * split_depth, k_end = min(p.k, k_begin + split_depth);
    const int a_along_k = p.a.column == 1, b_along_k = p.b.row == 1;
    a += a_offset + batch * p.a.batch + i0 * p.a.row;
    b += b_offset + batch * p.b.batch + j0 * p.b.column;

    __local REAL a_slab[TILE_K * PITCH], b_slab[TILE_K * PITCH];
    REAL a_next[PER_ITEM], b_next[PER_ITEM], sums[WIDTH][WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i)
#pragma unroll
        for (int j = 0; j < WIDTH; ++j)
            sums[i][j] = 0;

    fetch(a_next, a + k_begin * p.a.column, p.a.row, p.a.column, p.m - i0, k_end - k_begin, item, a_along_k);
    fetch(b_next, b + k_begin * p.b.row, p.b.column, p.b.row, p.n - j0, k_end - k_begin, item, b_along_k);
    for (long k = k_begin; k < k_end; k += TILE_K) {
        place(a_slab, a_next, item, a_along_k);
        place(b_slab, b_next, item, b_along_k);
        barrier(CLK_LOCAL_MEM_FENCE);
        const long next = k + TILE_K;
        if (next < k_end) {
            fetch(a_next, a + next * p.a.column, p.a.row, p.a.column, p.m - i0, k_end - next, item, a_along_k);
            fetch(b_next, b + next * p.b.row, p.b.column, p.b.row, p.n - j0, k_end - next, item, b_along_k);
        }
#pragma unroll 4
        for (int kk = 0; kk < TILE_K; ++kk) {
            REAL a_part[WIDTH], b_part[WIDTH];
#pragma unroll
            for (int quad = 0; quad < QUADS; ++quad) {
                const REAL4 a4 = vload4(0, a_slab + kk * PITCH + quad * 64 + y * 4);
                const REAL4 b4 = vload4(0, b_slab + kk * PITCH + quad * 64 + x * 4);
                a_part[quad * 4] = a4.x, a_part[quad * 4 + 1] = a4.y,
                a_part[quad * 4 + 2] = a4.z, a_part[quad * 4 + 3] = a4.w;
                b_part[quad * 4] = b4.x, b_part[quad * 4 + 1] = b4.y,
                b_part[quad * 4 + 2] = b4.z, b_part[quad * 4 + 3] = b4.w;
            }
#pragma unroll
            for (int i = 0; i < WIDTH; ++i)
#pragma unroll
                for (int j = 0; j < WIDTH; ++j)
#if REAL_IS_INTEGER
                    sums[i][j] += a_part[i] * b_part[j];
#else
                    sums[i][j] = fma(a_part[i], b_part[j], sums[i][j]);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

#pragma unroll
    for (int i = 0; i < WIDTH; ++i)
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const long row = i0 + i / 4 * 64 + y * 4 + i % 4, column = j0 + j / 4 * 64 + x * 4 + j % 4;
            if (row >= p.m || column >= p.n)
                continue;
            if (splits > 1)
                partial[partial_offset + ((split * p.batch + batch) * p.m + row) * p.n + column] = sums[i][j];
            else
                finish_element(sums[i][j], c + c_offset + batch * p.c.batch + AT(p.c, row, column),
                               d + d_offset + batch * p.d.batch + AT(p.d, row, column), &p, alpha, beta);
        }
}
