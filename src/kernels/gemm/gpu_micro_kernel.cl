// The register tile of kernels for GPUs that multiply through local memory. A work-group of SIDE x SIDE work-items owns
// TILE x TILE sums, a work-item WIDTH x WIDTH of them: groups of four neighbours, 4 SIDE apart. The shortest tile is
// for devices whose work-groups are small.
//
//                   b_slab: SLAB_K x TILE
//                   +--4--+--4--+ ...        x counts work-items along the columns, y along the rows
//   a_slab: SLAB_K  | sums of   |
//   x TILE          4 one work- |
//                   | item      |
//
// Slabs are kept as quads, so that local memory is read sixteen bytes at a time, and everything is unrolled: sums that
// a loop counter indexes would lie in private memory on GPUs. Options: -DX=<dtype of the matrices>,
// -DREAL=<float, double, uint, ulong>, -DTILE=32|64|128, -DSLAB_K=8|16|32, -DOFFSET=int|long (holds every distance
// within a matrix).
#include "core/quad.cl"
#include "core/real.cl"

#if TILE == 32
#define SIDE 8
#else
#define SIDE 16
#endif
#define ITEMS (SIDE * SIDE)
#define WIDTH (TILE / SIDE)
#define QUADS (WIDTH / 4)
#define SLAB_PITCH (TILE / 4 + 1)              // quads from one k to the next, shifted against bank conflicts
#define SLAB_QUADS (SLAB_K * SLAB_PITCH)
#define SLAB_LOADS (TILE * SLAB_K / 4 / ITEMS) // quads of a slab that a work-item brings
#define REAL4 CLPRIM_CAT(REAL, 4)
// -DSUB_GROUP=16 on Intel's GPUs: in sub-groups of 32 sums would be spilled.
#ifdef SUB_GROUP
#define TILE_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#define TILE_GROUP_2D __attribute__((reqd_work_group_size(SIDE, SIDE, 1), intel_reqd_sub_group_size(SUB_GROUP)))
#else
#define TILE_GROUP __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define TILE_GROUP_2D __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
#endif

#if REAL_IS_INTEGER
#define MULTIPLY_ADD(a, b, c) ((c) + (a) * (b))
#else
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif

// Row `i` and column `j` (a quad's first) of a work-item's sums within the tile.
#define ROW_OF(i, y) ((i) / 4 * (4 * SIDE) + (y) * 4 + (i) % 4)
#define COLUMN_OF(quad, x) ((quad) * (4 * SIDE) + (x) * 4)

// The column and the row of a work-item among the others, x and y above. -DINTERLEAVED=1, on NVIDIA's GPUs: 16 bytes
// of local memory are read for half a sub-group at a time where all lanes read the same as their neighbour, or all the
// same as the one two further on, and for a quarter otherwise. So neighbours differ in their row, which is one read for
// columns, those two apart in their column, and a sub-group has eight columns and four rows.
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif
static inline int item_column(int item)
{
    return INTERLEAVED ? item / 32 % (SIDE / 8) * 8 + item % 32 / 2 % 8 : item % SIDE;
}
static inline int item_row(int item)
{
    return INTERLEAVED ? item / (4 * SIDE) * 4 + item % 32 / 16 * 2 + item % 2 : item / SIDE;
}

static inline void clear_sums(REAL4 sums[WIDTH][QUADS])
{
#pragma unroll
    for (int i = 0; i < WIDTH; ++i)
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad)
            sums[i][quad] = (REAL4)0;
}

#define MULTIPLY_ROW(i, part)                                                                                         \
    _Pragma("unroll") for (int quad = 0; quad < QUADS; ++quad)                                                        \
        sums[i][quad] = MULTIPLY_ADD((REAL4)(part), b[quad], sums[i][quad]);

static inline void multiply_slabs(REAL4 sums[WIDTH][QUADS], const __local REAL4* a_slab, const __local REAL4* b_slab,
                                  int x, int y)
{
#pragma unroll
    for (int k = 0; k < SLAB_K; ++k) {
        REAL4 b[QUADS];
#pragma unroll
        for (int quad = 0; quad < QUADS; ++quad)
            b[quad] = b_slab[k * SLAB_PITCH + quad * SIDE + x];
#pragma unroll
        for (int rows = 0; rows < QUADS; ++rows) {
            const REAL4 a = a_slab[k * SLAB_PITCH + rows * SIDE + y];
            MULTIPLY_ROW(rows * 4, a.x)
            MULTIPLY_ROW(rows * 4 + 1, a.y)
            MULTIPLY_ROW(rows * 4 + 2, a.z)
            MULTIPLY_ROW(rows * 4 + 3, a.w)
        }
    }
}

// The quads that a work-item brings into a slab: four neighbours along k of one line (`along_k`), or of four lines at
// one k. Neighbouring work-items bring neighbouring quads.
static inline int slab_line(int item, int load, int along_k)
{
    const int at = item + load * ITEMS;
    return along_k ? at / (SLAB_K / 4) : at % (TILE / 4) * 4;
}
static inline int slab_depth(int item, int load, int along_k)
{
    const int at = item + load * ITEMS;
    return along_k ? at % (SLAB_K / 4) * 4 : at / (TILE / 4);
}

static inline void place_slab(__local REAL4* slab, const REAL4 values[SLAB_LOADS], int item, int along_k)
{
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
        const int line = slab_line(item, load, along_k), k = slab_depth(item, load, along_k);
        if (along_k) {
            __local REAL* to = (__local REAL*)slab + k * SLAB_PITCH * 4 + line;
            to[0] = values[load].x;
            to[SLAB_PITCH * 4] = values[load].y;
            to[2 * SLAB_PITCH * 4] = values[load].z;
            to[3 * SLAB_PITCH * 4] = values[load].w;
        } else
            slab[k * SLAB_PITCH + line / 4] = values[load];
    }
}

// How a slab's values lie in a matrix: steps in elements, the last line there is, whether quads lie along k, whether
// they are contiguous at multiples of four elements.
typedef struct {
    OFFSET line_step, k_step, last;
    int along_k, aligned;
} slab_source;

// -DNEIGHBOURS=1: quads that are not aligned are contiguous, and four elements from each one on may be read. Loads of
// vectors ask for the alignment of one element, which is all that many GPUs want.
#ifndef NEIGHBOURS
#define NEIGHBOURS 0
#endif

// A quad; of `depth` along k only the first count, zeros stand for the others. Lines beyond the last repeat it.
static inline REAL4 fetch_quad(const __global storage_t(X)* matrix, slab_source s, int line, int k, int depth)
{
#if NEIGHBOURS
    const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 4 * 4);
    const int at_k = depth == SLAB_K ? k : min(k, depth - 1);
    const OFFSET at = s.along_k ? first * s.line_step + at_k : first + at_k * s.k_step;
    const REAL4 v = vload4(0, matrix + at);
    const int from = s.along_k ? k : 0, count = s.along_k ? depth : k < depth ? 4 : 0;
    return depth == SLAB_K ? v
                           : (REAL4)(from < count ? v.x : 0, from + 1 < count ? v.y : 0, from + 2 < count ? v.z : 0,
                                     from + 3 < count ? v.w : 0);
#else
    if (s.aligned) {
        const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 4 * 4);
        return k < depth ? CLPRIM_CAT(convert_, REAL4)(load_quad(X, matrix + (first * s.line_step + k * s.k_step)))
                         : (REAL4)0;
    }
    REAL values[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const int at_k = s.along_k ? k + e : k;
        const OFFSET at = min((OFFSET)(s.along_k ? line : line + e), s.last) * s.line_step + at_k * s.k_step;
        values[e] = at_k < depth ? (REAL)load(X, matrix + at, 0) : (REAL)0;
    }
    return (REAL4)(values[0], values[1], values[2], values[3]);
#endif
}

static inline void fetch_slab(REAL4 values[SLAB_LOADS], const __global storage_t(X)* matrix, slab_source s, int depth,
                              int item)
{
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load)
        values[load] = fetch_quad(matrix, s, slab_line(item, load, s.along_k), slab_depth(item, load, s.along_k),
                                  depth);
}
