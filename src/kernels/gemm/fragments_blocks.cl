// Fragments of ENGINE_DPAS16 straight from global memory by block reads of two dimensions
// (cl_intel_subgroup_2d_block_io), without local memory. The hardware gives zeros for what lies outside of a matrix, so
// that edges and the rest of k need no care.
//
// A matrix of 16-bit elements: width and pitch in bytes, width and base multiples of what the hardware asks for
// (blocks_fit of gpu_matrix.cpp).
typedef struct {
    const __global ushort* base;
    int width, height, pitch;
} surface;

#define BLOCK_K 32   // k of one step
#define PREFETCHED (3 * BLOCK_K)

#if EMULATED
static inline ushort element(const __global void* base, int width, int height, int pitch, int x, int y)
{
    if ((uint)x >= (uint)width / 2 || (uint)y >= (uint)height)
        return 0;
    return ((const __global ushort*)((const __global char*)base + (long)y * pitch))[x];
}
static inline void read_some_rows(sub_group g, surface s, int rows, int x, int y, ushort* to)
{
    for (int i = 0; i < 2 * rows; ++i)
        to[i] = element(s.base, s.width, s.height, s.pitch, x + i / rows * 16 + g.lane, y + i % rows);
}
#define read_rows(g, s, x, y, to) read_some_rows(g, s, 32, x, y, to)
static inline void read_some_pairs(sub_group g, surface s, int rows, int x, int y, uint* to)
{
    for (int i = 0; i < rows; ++i) {
        const int column = x + i / (rows / 2) * 16 + g.lane, row = y + i % (rows / 2) * 2;
        to[i] = element(s.base, s.width, s.height, s.pitch, column, row) |
                (uint)element(s.base, s.width, s.height, s.pitch, column, row + 1) << 16;
    }
}
#define read_pairs(g, s, x, y, to) read_some_pairs(g, s, 32, x, y, to)
static inline void read_some_turned(sub_group g, surface s, int parts, int x, int y, uint* to)
{
    for (int i = 0; i < 8 * parts; ++i) {
        const int column = x + i / parts * 2, row = y + i % parts * 16 + g.lane;
        to[i] = element(s.base, s.width, s.height, s.pitch, column, row) |
                (uint)element(s.base, s.width, s.height, s.pitch, column + 1, row) << 16;
    }
}
#define read_turned(g, s, x, y, to) read_some_turned(g, s, 1, x, y, to)
#define read_two_turned(g, s, x, y, to) read_some_turned(g, s, 2, x, y, to)
#define PREFETCH(s, x, y)
#else
#define SURFACE(s) (__global void*)(s).base, (s).width, (s).height, (s).pitch
// 32 rows of 2 x 16 columns: [column block][row], a lane for each column.
#define read_rows(g, s, x, y, to) intel_sub_group_2d_block_read_16b_32r16x2c(SURFACE(s), (int2)(x, y), to)
// The same as pairs of rows: [column block][pair].
#define read_pairs(g, s, x, y, to) intel_sub_group_2d_block_read_transform_16b_32r16x2c(SURFACE(s), (int2)(x, y), to)
// 16 rows of 8 pairs of columns: [pair], a lane for each row.
#define read_turned(g, s, x, y, to)                                                                                   \
    intel_sub_group_2d_block_read_transpose_32b_16r8x1c(SURFACE(s), (int2)((x) >> 1, y), to)
// 32 rows of them: [pair][16 rows].
#define read_two_turned(g, s, x, y, to)                                                                               \
    intel_sub_group_2d_block_read_transpose_32b_32r8x1c(SURFACE(s), (int2)((x) >> 1, y), to)
#define PREFETCH(s, x, y) intel_sub_group_2d_block_prefetch_16b_32r16x2c(SURFACE(s), (int2)(x, y))
#endif

// What a group reads in a step of k is brought into the cache in pieces of 32 x 32, one by each sub-group.
typedef struct {
    surface from;
    int x, y, along_x;   // along_x: k is the direction of columns
} prefetched;

#define A_PIECES (BLOCK_M / 32)
#define B_PIECES (BLOCK_N / 32)
static inline prefetched prefetched_by(int team, surface a_from, surface b_from, int i0, int j0)
{
    const int piece = team % (A_PIECES + B_PIECES), b_line = j0 + 32 * (piece - A_PIECES);
    const int a_line = i0 + 32 * piece;
    const prefetched of_a = {a_from, A_ALONG_K ? 0 : a_line, A_ALONG_K ? a_line : 0, A_ALONG_K};
    const prefetched of_b = {b_from, B_ALONG_K ? 0 : b_line, B_ALONG_K ? b_line : 0, B_ALONG_K};
    return piece < A_PIECES ? of_a : of_b;
}

// Of four pairs of rows; as_short8 of their vector copies them first.
static inline fragment_a rows_of_pairs(uint a, uint b, uint c, uint d)
{
    return (short8)(as_short2(a), as_short2(b), as_short2(c), as_short2(d));
}
#define ROWS_OF_PAIRS(pairs, step) rows_of_pairs(pairs[0][step], pairs[1][step], pairs[2][step], pairs[3][step])

// sums += A B over one step of k; `row` and `column` are those of the sub-group in C. Reads 32 rows of A at a time and
// 32 columns of B, or 16 where memory has them the other way round.
static inline void multiply_blocks(sub_group g, fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N], surface a_from,
                                   surface b_from, int row, int column, int k)
{
#if A_ALONG_K
    ushort a[FRAGMENTS_M / 4][2][4][8];      // [32 rows][k step][8 rows][row]
    UNROLL for (int i = 0; i < FRAGMENTS_M / 4; ++i)
        read_rows(g, a_from, k, row + 32 * i, &a[i][0][0][0]);
#if B_ALONG_K
    uint b[FRAGMENTS_N][2][8];               // [16 columns][k step][pair]
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
        UNROLL for (int step = 0; step < 2; ++step)
            read_turned(g, b_from, k + 16 * step, column + 16 * j, &b[j][step][0]);
#define B_PART(step, j) as_int8(vload8(0, b[j][step]))
#else
    uint b[FRAGMENTS_N / 2][2][2][8];        // [32 columns][16 columns][k step][pair]
    UNROLL for (int j = 0; j < FRAGMENTS_N / 2; ++j)
        read_pairs(g, b_from, column + 32 * j, k, &b[j][0][0][0]);
#define B_PART(step, j) as_int8(vload8(0, b[(j) / 2][(j) % 2][step]))
#endif
    UNROLL for (int step = 0; step < 2; ++step)
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
        {
            const fragment_a part = as_short8(vload8(0, a[i / 4][step][i % 4]));
            UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
                sums[i][j] = multiply_add(g, part, B_PART(step, j), sums[i][j]);
        }
#else
    // A comes as pairs of rows, which instructions take apart: few rows serve many columns, 32 of them at a time.
    uint a[FRAGMENTS_M / 2][2][4][2];        // [16 rows][8 rows][pair of rows][k step]
    UNROLL for (int i = 0; i < FRAGMENTS_M / 2; ++i)
        read_two_turned(g, a_from, row + 16 * i, k, &a[i][0][0][0]);
    UNROLL for (int j = 0; j < FRAGMENTS_N; j += 2) {
        uint b[2][2][8];                     // [16 columns][k step][pair]
#if B_ALONG_K
        UNROLL for (int e = 0; e < 4; ++e)
            read_turned(g, b_from, k + e % 2 * 16, column + 16 * (j + e / 2), &b[e / 2][e % 2][0]);
#else
        read_pairs(g, b_from, column + 16 * j, k, &b[0][0][0]);
#endif
        UNROLL for (int step = 0; step < 2; ++step)
            UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
                UNROLL for (int e = 0; e < 2; ++e)
                    sums[i][j + e] = multiply_add(g, ROWS_OF_PAIRS(a[i / 2][i % 2], step),
                                                  as_int8(vload8(0, b[e][step])), sums[i][j + e]);
    }
#endif
}
