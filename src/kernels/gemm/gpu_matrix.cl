// Products of 16-bit floats on GPUs by matrix instructions (matrix_tiles.cl): a work-group owns a block of C over one
// of `splits` parts of k. Sums stay float until the epilogue rounds them once. Where fragments can be read as they are
// (-DBLOCKS=1, fragments_blocks.cl) there are no slabs.
//
// Options: those of problem.cl and matrix_tiles.cl, and
//   -DQUADS_OF_ROWS=0|1                1: sums leave four rows of a column at a time (matrix_sums.cl)
//   -DALIGNED_C=0|1                    whether C is contiguous where they lie, its addresses multiples of four elements
//   -DC_TYPE=<dtype of C and D>        X unless it is given
//   -DACTIVATION=<Activation> -DADD_D=0|1 -DPARTIAL=0|1
//   -DWARPGROUPS=0|1                   1: blocks of warpgroup_stages.cl
// Some compilers would spill sums.
#if (defined(ENGINE_MMA) && (PARTIAL || (A_ALONG_K && B_ALONG_K && FRAGMENTS_M * FRAGMENTS_N == 16))) ||              \
    (defined(ENGINE_WMMA) && FRAGMENTS_M * FRAGMENTS_N == 12 &&                                                       \
     (SUB_GROUPS_N > 1 ? A_ALONG_K != B_ALONG_K : SUB_GROUPS_M == 2 && A_ALONG_K))
#define SLABS_IN_PAIRS 0
#endif
#if defined(ENGINE_WMMA) || defined(ENGINE_WMMA12) || defined(ENGINE_MFMA)
#define FOUND_SLABS 1
#endif
#include "kernels/gemm/problem.cl"
#include "core/quad.cl"
#include "kernels/gemm/matrix_tiles.cl"
#if BLOCKS
#include "kernels/gemm/fragments_blocks.cl"
// The same in all lanes for the compiler, too, which would spill sums for it where A lies along k.
#if A_ALONG_K
#define PREFETCHING_TEAM team
#else
#define PREFETCHING_TEAM UNIFORM(team)
#endif
#endif
#if STAGES
#include "kernels/gemm/copied_slabs.cl"   // a file is included where it is named first
#endif
#if WARPGROUPS
#include "kernels/gemm/warpgroup_stages.cl"
#elif STAGES
#include "kernels/gemm/matrix_stages.cl"
#endif

#ifndef C_TYPE
#define C_TYPE X
#endif
// Whether what is written behind the sums is written out for all quads of a work-item, short as it is, unless D would
// take the registers beside large tiles' sums.
#if defined(ENGINE_MMA) && !PARTIAL && ACTIVATION <= ACTIVATION_RELU &&                                               \
    !(ADD_D && FRAGMENTS_M * FRAGMENTS_N == 16 && !WARPGROUPS)
#define UNROLLED_END 1
#else
#define UNROLLED_END 0
#endif

#if STAGES
// The block of C of a group: those that are computed at a time make a square of it and not a few rows, whose slabs fit
// into caches. Rows are taken in bands.
static inline uint2 near_block(uint x, uint y, uint columns, uint rows)
{
    const uint band = 2048 / BLOCK_M, at = y * columns + x;
    const uint first = at / (band * columns) * band, in_band = at % (band * columns);
    const uint height = min(band, rows - first);
    return (uint2)(in_band / height, first + in_band % height);
}
#endif

// The direction in which four sums lie, how many of them there are, and whether the other one has their place.
#if QUADS_OF_ROWS
#define NEAR row
#define QUAD_COUNT(i, j) last_row + 1 - i
#define HAS_LINE(i, j) j <= last_column
#else
#define NEAR column
#define QUAD_COUNT(i, j) last_column + 1 - j
#define HAS_LINE(i, j) i <= last_row
#endif

#if !PARTIAL
// The first `count` of four neighbours of D.
static inline float4 load_d(const __global storage_t(C_TYPE)* d, OFFSET d_step, int count)
{
#if ADD_D
    return (float4)(load(C_TYPE, d, 0), load(C_TYPE, d, min(1, count - 1) * d_step),
                    load(C_TYPE, d, min(2, count - 1) * d_step), load(C_TYPE, d, min(3, count - 1) * d_step));
#else
    return (float4)0;
#endif
}

DEFINE_SMOOTH(float4, float, 4)
// The epilogue of the first `count` of four neighbours of C.
static inline void finish_sums(float4 v, __global storage_t(C_TYPE)* c, OFFSET c_step, float4 d, int count,
                               float2 alpha_beta)
{
    v *= alpha_beta.x;
#if ADD_D
    v += alpha_beta.y * d;
#endif
    ACTIVATE(float4, v, ACTIVATION)
#if ALIGNED_C
    store_quad(C_TYPE, c, v);
#else
    const float values[4] = {v.x, v.y, v.z, v.w};
    UNROLL for (int e = 0; e < 4; ++e)
        if (e < count)
            store(C_TYPE, c, e * c_step, values[e]);
#endif
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void multiply(const __global ushort* restrict a, ulong a_offset, const __global ushort* restrict b, ulong b_offset,
              __global storage_t(C_TYPE)* c, ulong c_offset, const __global storage_t(C_TYPE)* d, ulong d_offset,
              __global float* partial, ulong partial_offset, gemm_problem p, float alpha, float beta, long splits,
              long split_depth)
{
    BEGIN_MATRIX_TILE
    const long row_blocks = (p.m + BLOCK_M - 1) / BLOCK_M;
    const long split = get_group_id(1) / row_blocks, batch = get_group_id(2);
#if STAGES
    const uint2 block = near_block(get_group_id(0), get_group_id(1) % row_blocks, get_num_groups(0), row_blocks);
    const long j0 = (long)block.x * BLOCK_N, i0 = (long)block.y * BLOCK_M;
#else
    const long j0 = (long)get_group_id(0) * BLOCK_N, i0 = (long)(get_group_id(1) % row_blocks) * BLOCK_M;
#endif
    const long k_begin = split * split_depth, k_end = min(p.k, k_begin + split_depth);
    const int last_row = (int)min(p.m - i0, (long)BLOCK_M) - 1, last_column = (int)min(p.n - j0, (long)BLOCK_N) - 1;

#if BLOCKS
#if A_ALONG_K
    const surface from_a = {a + a_offset + batch * p.a.batch, (int)p.k * 2, (int)p.m, (int)p.a.row * 2};
#else
    const surface from_a = {a + a_offset + batch * p.a.batch, ((int)p.m + 7 & ~7) * 2, (int)p.k, (int)p.a.column * 2};
#endif
#if B_ALONG_K
    const surface from_b = {b + b_offset + batch * p.b.batch, (int)p.k * 2, (int)p.n, (int)p.b.column * 2};
#else
    const surface from_b = {b + b_offset + batch * p.b.batch, ((int)p.n + 7 & ~7) * 2, (int)p.k, (int)p.b.row * 2};
#endif
    const prefetched ahead = prefetched_by(PREFETCHING_TEAM, from_a, from_b, (int)i0, (int)j0);
    for (int k = (int)k_begin; k < (int)k_end; k += BLOCK_K) {
        PREFETCH(ahead.from, ahead.along_x ? k + PREFETCHED : ahead.x, ahead.along_x ? ahead.y : k + PREFETCHED);
        multiply_blocks(g, sums, from_a, from_b, (int)i0 + row, (int)j0 + column, k);
    }
#else
    const slab_source from_a = {2 * p.a.row, 2 * p.a.column, last_row, A_ALONG_K, BLOCK_M};
    const slab_source from_b = {2 * p.b.column, 2 * p.b.row, last_column, B_ALONG_K, BLOCK_N};
    const long a_origin = a_offset + batch * p.a.batch + i0 * p.a.row + k_begin * p.a.column;
    const long b_origin = b_offset + batch * p.b.batch + j0 * p.b.column + k_begin * p.b.row;
#if OFFSET_IS_WHOLE && !POINTERS_MOVE
    OFFSET a_far = (OFFSET)(2 * a_origin), b_far = (OFFSET)(2 * b_origin);
#else
    OFFSET a_far = 0, b_far = 0;
    a += a_origin;
    b += b_origin;
#endif

#if STAGES
    BEGIN_STAGES
#define COPY COPY_SLABS
#else
    BEGIN_SLABS
#if POINTERS_MOVE
    FIND_SLAB(a, A_LOADS, from_a)
    FIND_SLAB(b, B_LOADS, from_b)
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        FETCH_FOUND(a, A_LOADS, from_a, count)                                                                        \
        FETCH_FOUND(b, B_LOADS, from_b, count)                                                                        \
    }
#else
#define FETCH(count)                                                                                                  \
    {                                                                                                                 \
        FETCH_SLAB(a_next, A_LOADS, a, a_far, from_a, a_line, a_k, count)                                             \
        FETCH_SLAB(b_next, B_LOADS, b, b_far, from_b, b_line, b_k, count)                                             \
        a_far += count * from_a.k_step;                                                                               \
        b_far += count * from_b.k_step;                                                                               \
    }
#endif
#endif
    MULTIPLY_DEPTH(k_end - k_begin)
#endif

#if PARTIAL
    partial += partial_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;
#define WRITE_QUAD write_sums(v, partial + i * p.n + j, count);
#else
    c += c_offset + batch * p.c.batch + i0 * p.c.row + j0 * p.c.column;
    d += d_offset + batch * p.d.batch + i0 * p.d.row + j0 * p.d.column;
#define D_AT(i, j, count)                                                                                             \
    load_d(d + (i) * (OFFSET)p.d.row + (j) * (OFFSET)p.d.column, (OFFSET)p.d.NEAR, count)
#define WRITE_QUAD_OF(d_values)                                                                                       \
    finish_sums(v, c + i * (OFFSET)p.c.row + j * (OFFSET)p.c.column, (OFFSET)p.c.NEAR, d_values, count,               \
                (float2)(alpha, beta));
#define WRITE_QUAD WRITE_QUAD_OF(D_AT(i, j, count))
#endif
#if UNROLLED_END
    float4 of_d[QUADS_OF_ITEM];
    EACH_QUAD_AHEAD(i, j, v, which, {
        const int near = min(j, last_column);
        of_d[which] = D_AT(min(i, last_row), near, last_column + 1 - near);
    }, {
        const int count = last_column + 1 - j;
        if (i <= last_row && count > 0) {
            WRITE_QUAD_OF(of_d[which])
        }
    })
#else
    EACH_QUAD_OF_SUMS(i, j, v, {
        const int count = QUAD_COUNT(i, j);
        if (HAS_LINE(i, j) && count > 0) {
            WRITE_QUAD
        }
    })
#endif
}
