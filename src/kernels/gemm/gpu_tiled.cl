// Products on GPUs: a work-group owns a TILE x TILE block of C over one of `splits` parts of k. Slabs of A and B pass
// through local memory into the register tile of gpu_micro_kernel.cl; while one is multiplied, the next one is already
// on its way from global memory into registers.
//
// Nothing is tested inside the loop: lines beyond the matrix's edge repeat its last one, and their sums are not
// written; what is left over when k is cut into slabs comes first, the rest filled with zeros.
//
// Options: those of problem.cl and gpu_micro_kernel.cl, and
//   -DA_ALONG_K=0|1 -DB_ALONG_K=0|1    whether k is the direction in which neighbours are brought
//   -DALIGNED=0|1                      whether that direction is contiguous and all addresses are multiples of four
//                                      elements, C's columns too
//   -DNEIGHBOURS=0|1                   where it is not ALIGNED: whether it is contiguous, and four elements from each
//                                      on may be read
//   -DOFFSET=int|long                  holds every distance within a matrix
//   -DCOUNTED=0|1                      1: places are counted from where the part of k begins, since a pointer that
//                                      moves on hides from Intel's compiler which buffer it is in: loads from
//                                      anywhere are loops over the addresses of a sub-group on Xe-LP
//   -DLEFT=int|long                    counts slabs, parts and batches: int where it saves the registers that
//                                      sums miss (NVIDIA's), while AMD's compiler makes more pairs of instructions
//                                      beside long
//   -DSTAGES=0|2.. -DEMULATED=0|1      of tiled_stages.cl
//   -DACTIVATION=<Activation> -DADD_D=0|1 -DPARTIAL=0|1
#include "kernels/gemm/problem.cl"
#include "kernels/gemm/gpu_micro_kernel.cl"
#ifndef STAGES
#define STAGES 0
#endif
#if STAGES
#include "kernels/gemm/tiled_stages.cl"
#endif

#if defined(CLPRIM_FP64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define LEFT_IS_int 1
#if CLPRIM_CAT(LEFT_IS_, LEFT)
#define GROUP_ID(dimension) (int)get_group_id(dimension)
#else
#define GROUP_ID(dimension) get_group_id(dimension)
#endif

#if PARTIAL
static inline void write_quad(REAL4 v, __global REAL* to, int count)
{
    const REAL values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < count)
            to[e] = values[e];
}
#else
// The first `count` of four neighbours in a row of D.
static inline REAL4 load_added(const __global storage_t(X)* d, OFFSET step, int count)
{
    REAL values[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        values[e] = (REAL)load(X, d + min(e, count - 1) * step, 0);
    return (REAL4)(values[0], values[1], values[2], values[3]);
}

static inline void write_quad(REAL4 v, __global storage_t(X)* c, OFFSET step, int count)
{
#if ALIGNED
    store_quad(X, c, to_quad(X, v));
#else
    const REAL values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < count)
            store(X, c + e * step, 0, (compute_t(X))values[e]);
#endif
}

// The activation of one row of a work-item. Functions of many instructions stand in a loop over local memory: inlined
// for every sum they would outgrow the instruction cache and everything else.
static inline void activate_row(REAL4 row[QUADS], __local REAL* mine)
{
#if ACTIVATION == ACTIVATION_RELU
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad)
        row[quad] = select(row[quad], (REAL4)0, row[quad] < (REAL4)0);
#elif ACTIVATION != 0
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad) {
        mine[(4 * quad) * ITEMS] = row[quad].x;
        mine[(4 * quad + 1) * ITEMS] = row[quad].y;
        mine[(4 * quad + 2) * ITEMS] = row[quad].z;
        mine[(4 * quad + 3) * ITEMS] = row[quad].w;
    }
#pragma unroll 1
    for (int e = 0; e < WIDTH; ++e) {
        REAL v = mine[e * ITEMS];
        ACTIVATE(REAL, v, ACTIVATION)
        mine[e * ITEMS] = v;
    }
#pragma unroll
    for (int quad = 0; quad < QUADS; ++quad)
        row[quad] = (REAL4)(mine[(4 * quad) * ITEMS], mine[(4 * quad + 1) * ITEMS], mine[(4 * quad + 2) * ITEMS],
                            mine[(4 * quad + 3) * ITEMS]);
#endif
}
#endif

// Slabs of k after the first. Other compilers spill where places are counted, or make more instructions of it.
#if COUNTED
#define EACH_SLAB(depth, first) for (OFFSET all = (OFFSET)(depth), k = first;; k += SLAB_K)
#define MORE_SLABS (k < all)
#define AT_SLAB(matrix, step) ((matrix) + k * (OFFSET)(step))
// Zero, which compilers can't know: places of single elements, which would take registers that sums miss, seem to
// depend on the slab and are found anew for each.
#define NONE (ALIGNED || NEIGHBOURS ? 0 : (int)(k == ~all))
#define MOVE_ON(depth)
#define END_WITHOUT_MORE                                                                                              \
    if (!MORE_SLABS)                                                                                                  \
        break;
#else
#define EACH_SLAB(depth, first) for (LEFT left = (LEFT)(((depth) - (first)) / SLAB_K); left >= 0; --left)
#define MORE_SLABS (left > 0)
#define AT_SLAB(matrix, step) (matrix)
// As above, where NVIDIA's compiler misses registers without.
#if CLPRIM_CAT(LEFT_IS_, LEFT) && PARTIAL && !A_ALONG_K && !ALIGNED && !NEIGHBOURS
#define NONE (int)(left == INT_MAX)
#else
#define NONE 0
#endif
#define MOVE_ON(depth)                                                                                                \
    a += (depth) * p.a.column;                                                                                        \
    b += (depth) * p.b.row;
#define END_WITHOUT_MORE
#endif

__kernel TILE_GROUP_2D
void multiply(const __global storage_t(X)* restrict a, ulong a_offset, const __global storage_t(X)* restrict b,
              ulong b_offset, __global storage_t(X)* c, ulong c_offset, const __global storage_t(X)* d, ulong d_offset,
              __global REAL* partial, ulong partial_offset, gemm_problem p, REAL alpha, REAL beta, long splits,
              long split_depth)
{
    const int item = get_local_id(1) * SIDE + get_local_id(0);
    const int x = INTERLEAVED ? item_column(item) : (int)get_local_id(0);
    const int y = INTERLEAVED ? item_row(item) : (int)get_local_id(1);
    const LEFT row_blocks = (p.m + TILE - 1) / TILE;
    const long j0 = (long)get_group_id(0) * TILE, i0 = (long)(GROUP_ID(1) % row_blocks) * TILE;
    const LEFT split = GROUP_ID(1) / row_blocks, batch = GROUP_ID(2);
    const long k_begin = split * split_depth, k_end = min(p.k, k_begin + split_depth);
    const slab_source from_a = {p.a.row, p.a.column, min(p.m - i0, (long)TILE) - 1, A_ALONG_K, ALIGNED};
    const slab_source from_b = {p.b.column, p.b.row, min(p.n - j0, (long)TILE) - 1, B_ALONG_K, ALIGNED};
    a += a_offset + batch * p.a.batch + i0 * p.a.row + k_begin * p.a.column;
    b += b_offset + batch * p.b.batch + j0 * p.b.column + k_begin * p.b.row;

    REAL4 a_next[SLAB_LOADS], b_next[SLAB_LOADS], sums[WIDTH][QUADS];
    clear_sums(sums);
    const int over = (int)((k_end - k_begin) % SLAB_K), first = over ? over : SLAB_K;

#if STAGES
    __local REAL4 slabs[STAGES * STAGE];
    MULTIPLY_STAGES(k_end - k_begin)
#else
    __local REAL4 slabs[2 * SLAB_QUADS];
    __local REAL4 *a_slab = slabs, *b_slab = slabs + SLAB_QUADS;
    fetch_slab(a_next, a, from_a, first, item);
    fetch_slab(b_next, b, from_b, first, item);
    MOVE_ON(first)
    EACH_SLAB(k_end - k_begin, first)
    {
        place_slab(a_slab, a_next, item, A_ALONG_K);
        place_slab(b_slab, b_next, item, B_ALONG_K);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (MORE_SLABS) {
            fetch_slab(a_next, AT_SLAB(a, p.a.column), from_a, SLAB_K, item + NONE);
            fetch_slab(b_next, AT_SLAB(b, p.b.row), from_b, SLAB_K, item + NONE);
            MOVE_ON(SLAB_K)
        }
        multiply_slabs(sums, a_slab, b_slab, x, y);
        barrier(CLK_LOCAL_MEM_FENCE);   // behind the last slab, too: activations share the memory of slabs
        END_WITHOUT_MORE
    }
#endif

#if PARTIAL
    partial += partial_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;
#else
    c += c_offset + batch * p.c.batch + i0 * p.c.row + j0 * p.c.column;
    d += d_offset + batch * p.d.batch + i0 * p.d.row + j0 * p.d.column;
#endif
// Rows of what is added take registers that compilers then miss in the loop over slabs; without them they give the sums
// of two matrices along k other registers, which AMD's pairs of instructions do not reach.
#define AT_ONCE (!ACTIVATION && (ADD_D || !(A_ALONG_K && B_ALONG_K)))
#define WRITE_RESULT(i, quad)                                                                                         \
    write_quad(sums[i][quad], c + row * (OFFSET)p.c.row + column * (OFFSET)p.c.column, (OFFSET)p.c.column, count);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        const int row = ROW_OF(i, y);
        if (row > from_a.last)
            continue;
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const int column = COLUMN_OF(quad, x), count = (int)from_b.last + 1 - column;
            if (count <= 0)
                continue;
#if PARTIAL
            write_quad(sums[i][quad], partial + row * p.n + column, count);
#else
            sums[i][quad] *= alpha;
#if ADD_D
            sums[i][quad] += beta * load_added(d + row * (OFFSET)p.d.row + column * (OFFSET)p.d.column,
                                               (OFFSET)p.d.column, count);
#endif
#if AT_ONCE
            WRITE_RESULT(i, quad)
#endif
#endif
        }
#if !PARTIAL && !AT_ONCE
        activate_row(sums[i], (__local REAL*)slabs + item);
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad) {
            const int column = COLUMN_OF(quad, x), count = (int)from_b.last + 1 - column;
            if (count > 0)
                WRITE_RESULT(i, quad)
        }
#endif
    }
}
