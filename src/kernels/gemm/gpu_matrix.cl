// Products of 16-bit floats on GPUs by matrix instructions (fragments.cl). A work-group of SUB_GROUPS_M x SUB_GROUPS_N
// sub-groups owns a block of C over one of `splits` parts of k; each sub-group has FRAGMENTS_M x FRAGMENTS_N fragments
// of it. Slabs of A and B pass through local memory, two in turn: while one is multiplied, the next one is on its way
// from global memory into registers.
//
// As in gpu_tiled.cl nothing is tested inside the loop: lines beyond the matrix's edge repeat its last one, and their
// sums are not written; what is left over when k is cut into slabs comes first, the rest filled with zeros. Sums stay
// float until the epilogue rounds them once.
//
// Where fragments can be read as they are (-DBLOCKS=1, fragments_blocks.cl) there are no slabs.
//
// Options: those of problem.cl and fragments.cl, and
//   -DSUB_GROUPS_M=.. -DSUB_GROUPS_N=.. -DFRAGMENTS_M=.. -DFRAGMENTS_N=..
//   -DA_ALONG_K=0|1 -DB_ALONG_K=0|1    whether k is the direction in which neighbours are brought
//   -DALIGNED=0|1                      whether that direction is contiguous, all addresses multiples of eight elements
//   -DALIGNED_C=0|1                    whether C's columns are contiguous, its addresses multiples of four elements
//   -DOFFSET=uint|int|long             holds every distance in bytes within a matrix; uint those from the beginning of
//                                      its buffer on, which many GPUs add to an address in one instruction
//   -DACTIVATION=<Activation> -DADD_D=0|1 -DPARTIAL=0|1
#include "kernels/gemm/problem.cl"
#include "core/quad.cl"
#include "kernels/gemm/fragments.cl"

#if EMULATED
#define UNROLL
#define SUB_GROUP_SIZE
#else
#define UNROLL _Pragma("unroll")
#if defined(ENGINE_DPAS16) || defined(ENGINE_DPAS8)
#define SUB_GROUP_SIZE __attribute__((intel_reqd_sub_group_size(LANES)))
#else
#define SUB_GROUP_SIZE
#endif
#endif

#define ITEMS (SUB_GROUPS_M * SUB_GROUPS_N * LANES)
#define ROWS (FRAGMENTS_M * FRAGMENT_M)      // of a sub-group
#define COLUMNS (FRAGMENTS_N * FRAGMENT_N)
#define BLOCK_M (SUB_GROUPS_M * ROWS)
#define BLOCK_N (SUB_GROUPS_N * COLUMNS)
#define A_SLAB (BLOCK_M * SLAB_PITCH)        // words
#define B_SLAB (BLOCK_N * SLAB_PITCH)
#define A_LOADS (BLOCK_M * SLAB_K / 8 / ITEMS)   // groups of eight neighbours that a work-item brings
#define B_LOADS (BLOCK_N * SLAB_K / 8 / ITEMS)
#define DUMPED (SUB_GROUPS_M * SUB_GROUPS_N * FRAGMENT_M * COLUMNS)   // sums in local memory at a time
#define SLAB_WORDS (BLOCKS ? 0 : 2 * (A_SLAB + B_SLAB))
#define LOCAL_WORDS (SLAB_WORDS > DUMPED ? SLAB_WORDS : DUMPED)

#if BLOCKS
#include "kernels/gemm/fragments_blocks.cl"
#else
// Where the first group of eight neighbours lies that a work-item brings, and how much further the others. Along k four
// groups make a line. Along lines they come in pairs, at k and k + 1; where words of pairs are stored, work-items next
// to each other bring different k, since words of different lines meet in one bank.
static inline int first_line(uint item, int along_k, int lines)
{
    if (along_k)
        return item / (SLAB_K / 8);
#ifdef TRANSPOSING_LOADS
    return item % (lines / 8) * 8;
#else
    return (item / (4 * SLAB_K / 2) * 4 + item % 4) * 8;
#endif
}
static inline int first_depth(uint item, int along_k, int lines)
{
    if (along_k)
        return item % (SLAB_K / 8) * 8;
#ifdef TRANSPOSING_LOADS
    return item / (lines / 8) * 2;
#else
    return item / 4 % (SLAB_K / 2) * 2;
#endif
}
#ifdef TRANSPOSING_LOADS
#define LINES_ON(load, along_k) ((along_k) ? (load) * ITEMS / (SLAB_K / 8) : 0)
#define DEPTH_ON(load, along_k, lines) ((along_k) ? 0 : (load) / 2 * ITEMS / ((lines) / 8) * 2)
#else
#define LINES_ON(load, along_k) ((along_k) ? (load) * ITEMS / (SLAB_K / 8) : (load) / 2 * ITEMS / (2 * SLAB_K) * 32)
#define DEPTH_ON(load, along_k, lines) ((along_k) ? 0 : (load) / 2 * ITEMS % (2 * SLAB_K) / 4 * 2)
#endif

// How a slab's values lie in a matrix: steps in bytes, the last line there is, whether neighbours lie along k.
typedef struct {
    OFFSET line_step, k_step, last;
    int along_k, lines;
} slab_source;

#define IS_WHOLE_uint 1
#define IS_WHOLE_int 0
#define IS_WHOLE_long 0
#define OFFSET_IS_WHOLE CLPRIM_CAT(IS_WHOLE_, OFFSET)

// Eight neighbours; of `depth` along k only the first count, zeros stand for the others. Lines beyond the last repeat
// it.
static inline uint4 fetch_group(const __global uchar* matrix, OFFSET far, slab_source s, int line, int k, int depth)
{
#if ALIGNED
    const OFFSET first = min((OFFSET)line, s.along_k ? s.last : s.last / 8 * 8);
    return k < depth ? *(const __global uint4*)(matrix + (far + (first * s.line_step + k * s.k_step))) : (uint4)0;
#else
    uint words[4];
    UNROLL for (int e = 0; e < 8; ++e) {
        const int at_k = s.along_k ? k + e : k;
        const OFFSET at = min((OFFSET)(s.along_k ? line : line + e), s.last) * s.line_step + at_k * s.k_step + far;
        const uint bits = at_k < depth ? *(const __global ushort*)(matrix + at) : (ushort)0;
        words[e / 2] = e % 2 ? words[e / 2] | bits << 16 : bits;
    }
    return (uint4)(words[0], words[1], words[2], words[3]);
#endif
}

#define FETCH_SLAB(values, count, matrix, far, s, line, k, depth)                                                     \
    UNROLL for (int load = 0; load < count; ++load)                                                                   \
        values[load] = fetch_group((const __global uchar*)matrix, far, s, line + LINES_ON(load, s.along_k),           \
                                   k + DEPTH_ON(load, s.along_k, s.lines) + (s.along_k ? 0 : load % 2), depth);

#define PLACE_SLAB(which, slab, values, count, along_k, lines)                                                        \
    UNROLL for (int load = 0; load < count; load += along_k ? 1 : 2)                                                  \
    {                                                                                                                 \
        __local uint* to =                                                                                            \
            (slab) + which##_place(along_k, lines, LINES_ON(load, along_k), DEPTH_ON(load, along_k, lines));          \
        if (along_k)                                                                                                  \
            place_##which##_along_k(to, values[load]);                                                                \
        else                                                                                                          \
            place_##which##_along_lines(to, lines, values[load], values[load + 1]);                                   \
    }

static inline void multiply_slabs(sub_group g, fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N], const __local uint* slabs,
                                  int a_begin, int b_begin)
{
    UNROLL for (int k = 0; k < SLAB_K; k += FRAGMENT_K)
    {
        fragment_a a[FRAGMENTS_M];
        fragment_b b[FRAGMENTS_N];
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            a[i] = load_a(g, slabs, a_begin, A_ALONG_K, BLOCK_M, i, k);
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
            b[j] = load_b(g, slabs, b_begin, B_ALONG_K, BLOCK_N, j, k);
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
                sums[i][j] = multiply_add(g, a[i], b[j], sums[i][j]);
    }
}

#endif

// One row of a sub-group's fragments into local memory, [FRAGMENT_M][COLUMNS].
static inline void dump_fragments(const fragment_sums sums[FRAGMENTS_N], __local float* to, int lane)
{
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
    {
        float values[FRAGMENT_SUMS];
        CLPRIM_CAT(vstore, FRAGMENT_SUMS)(sums[j], 0, values);
        UNROLL for (int e = 0; e < FRAGMENT_SUMS; ++e)
            to[FRAGMENT_ROW(e, lane) * COLUMNS + j * FRAGMENT_N + FRAGMENT_COLUMN(e, lane)] = values[e];
    }
}

#if PARTIAL
static inline void write_sums(float4 v, __global float* to, int count)
{
    const float values[4] = {v.x, v.y, v.z, v.w};
    UNROLL for (int e = 0; e < 4; ++e)
        if (e < count)
            to[e] = values[e];
}
#else
// The epilogue of the first `count` of four neighbours in a row of C.
static inline void finish_sums(float4 v, __global ushort* c, OFFSET c_step, const __global ushort* d, OFFSET d_step,
                               int count, float alpha, float beta)
{
    v *= alpha;
#if ADD_D
    v += beta * (float4)(load(X, d, 0), load(X, d, min(1, count - 1) * d_step), load(X, d, min(2, count - 1) * d_step),
                         load(X, d, min(3, count - 1) * d_step));
#endif
    ACTIVATE(float4, v, ACTIVATION)
#if ALIGNED_C
    store_quad(X, c, v);
#else
    const float values[4] = {v.x, v.y, v.z, v.w};
    UNROLL for (int e = 0; e < 4; ++e)
        if (e < count)
            store(X, c, e * c_step, values[e]);
#endif
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) SUB_GROUP_SIZE
void multiply(const __global ushort* restrict a, ulong a_offset, const __global ushort* restrict b, ulong b_offset,
              __global ushort* c, ulong c_offset, const __global ushort* d, ulong d_offset, __global float* partial,
              ulong partial_offset, gemm_problem p, float alpha, float beta, long splits, long split_depth)
{
    __local uint4 memory[(LOCAL_WORDS + 3) / 4];
    __local uint* slabs = (__local uint*)memory;
    const uint item = get_local_id(0);
    const int team = item / LANES;
#if EMULATED
    __local uint exchange[SUB_GROUPS_M * SUB_GROUPS_N * EXCHANGE_WORDS];
    const sub_group g = {item % LANES, exchange + team * EXCHANGE_WORDS};
#else
    const sub_group g = {item % LANES, slabs};
#endif
    const int row = team / SUB_GROUPS_N * ROWS, column = team % SUB_GROUPS_N * COLUMNS;
    const long row_blocks = (p.m + BLOCK_M - 1) / BLOCK_M;
    const long j0 = (long)get_group_id(0) * BLOCK_N, i0 = (long)(get_group_id(1) % row_blocks) * BLOCK_M;
    const long split = get_group_id(1) / row_blocks, batch = get_group_id(2);
    const long k_begin = split * split_depth, k_end = min(p.k, k_begin + split_depth);
    const int last_row = (int)min(p.m - i0, (long)BLOCK_M) - 1, last_column = (int)min(p.n - j0, (long)BLOCK_N) - 1;
    fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N];
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
            sums[i][j] = (fragment_sums)0;

#if BLOCKS
#if A_ALONG_K
    const surface from_a = {a + a_offset + batch * p.a.batch, (int)p.k * 2, (int)p.m, (int)p.a.row * 2};
#else
    const surface from_a = {a + a_offset + batch * p.a.batch, (int)p.m * 2, (int)p.k, (int)p.a.column * 2};
#endif
#if B_ALONG_K
    const surface from_b = {b + b_offset + batch * p.b.batch, (int)p.k * 2, (int)p.n, (int)p.b.column * 2};
#else
    const surface from_b = {b + b_offset + batch * p.b.batch, (int)p.n * 2, (int)p.k, (int)p.b.row * 2};
#endif
    const prefetched ahead = prefetched_by(team, from_a, from_b, (int)i0, (int)j0);
    for (int k = (int)k_begin; k < (int)k_end; k += BLOCK_K) {
        PREFETCH(ahead.from, ahead.along_x ? k + PREFETCHED : ahead.x, ahead.along_x ? ahead.y : k + PREFETCHED);
        multiply_blocks(g, sums, from_a, from_b, (int)i0 + row, (int)j0 + column, k);
    }
#else
    const slab_source from_a = {2 * p.a.row, 2 * p.a.column, last_row, A_ALONG_K, BLOCK_M};
    const slab_source from_b = {2 * p.b.column, 2 * p.b.row, last_column, B_ALONG_K, BLOCK_N};
    const long a_origin = a_offset + batch * p.a.batch + i0 * p.a.row + k_begin * p.a.column;
    const long b_origin = b_offset + batch * p.b.batch + j0 * p.b.column + k_begin * p.b.row;
#if OFFSET_IS_WHOLE
    OFFSET a_far = (OFFSET)(2 * a_origin), b_far = (OFFSET)(2 * b_origin);
#else
    OFFSET a_far = 0, b_far = 0;
    a += a_origin;
    b += b_origin;
#endif

    const int a_line = first_line(item, A_ALONG_K, BLOCK_M), a_k = first_depth(item, A_ALONG_K, BLOCK_M);
    const int b_line = first_line(item, B_ALONG_K, BLOCK_N), b_k = first_depth(item, B_ALONG_K, BLOCK_N);
    const int a_at = a_place(A_ALONG_K, BLOCK_M, a_line, a_k), b_at = b_place(B_ALONG_K, BLOCK_N, b_line, b_k);
    uint4 a_next[A_LOADS], b_next[B_LOADS];
    const int over = (int)((k_end - k_begin) % SLAB_K), first = over ? over : SLAB_K;
    FETCH_SLAB(a_next, A_LOADS, a, a_far, from_a, a_line, a_k, first)
    FETCH_SLAB(b_next, B_LOADS, b, b_far, from_b, b_line, b_k, first)
    a_far += first * from_a.k_step;
    b_far += first * from_b.k_step;
    const int a_begin = begin_a(g, A_ALONG_K, BLOCK_M, row), b_begin = begin_b(g, B_ALONG_K, BLOCK_N, column);
    int now = 0;
#define MULTIPLY_SLAB(fetch_next)                                                                                     \
    {                                                                                                                 \
        PLACE_SLAB(a, slabs + (now + a_at), a_next, A_LOADS, A_ALONG_K, BLOCK_M)                                      \
        PLACE_SLAB(b, slabs + (now + A_SLAB + b_at), b_next, B_LOADS, B_ALONG_K, BLOCK_N)                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        if (fetch_next) {                                                                                             \
            FETCH_SLAB(a_next, A_LOADS, a, a_far, from_a, a_line, a_k, SLAB_K)                                        \
            FETCH_SLAB(b_next, B_LOADS, b, b_far, from_b, b_line, b_k, SLAB_K)                                        \
            a_far += SLAB_K * from_a.k_step;                                                                          \
            b_far += SLAB_K * from_b.k_step;                                                                          \
        }                                                                                                             \
        multiply_slabs(g, sums, slabs, UNIFORM(now + a_begin), UNIFORM(now + A_SLAB + b_begin));                      \
        now = A_SLAB + B_SLAB - now;                                                                                  \
    }
    int left = (int)((k_end - k_begin - first) / SLAB_K);
#if EMULATED   // once is enough to compile
    for (; left >= 0; --left)
        MULTIPLY_SLAB(left > 0)
#else
    for (; left > 0; --left)
        MULTIPLY_SLAB(1)
    MULTIPLY_SLAB(0)
#endif
#endif

    // Rows of fragments pass through local memory, so that the epilogue is there once and writes neighbours together.
#if PARTIAL
    partial += partial_offset + ((split * p.batch + batch) * p.m + i0) * p.n + j0;
#else
    c += c_offset + batch * p.c.batch + i0 * p.c.row + j0 * p.c.column;
    d += d_offset + batch * p.d.batch + i0 * p.d.row + j0 * p.d.column;
#endif
    __local float* const dumped = (__local float*)memory;
    for (int part = 0; part < FRAGMENTS_M; ++part) {
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            if (i == part)
                dump_fragments(sums[i], dumped + team * FRAGMENT_M * COLUMNS, g.lane);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint quad = item; quad < DUMPED / 4; quad += ITEMS) {
            const int line = quad / (COLUMNS / 4), of = line / FRAGMENT_M;
            const int i = of / SUB_GROUPS_N * ROWS + part * FRAGMENT_M + line % FRAGMENT_M;
            const int j = of % SUB_GROUPS_N * COLUMNS + quad % (COLUMNS / 4) * 4, count = last_column + 1 - j;
            if (i > last_row || count <= 0)
                continue;
            const float4 v = ((const __local float4*)dumped)[quad];
#if PARTIAL
            write_sums(v, partial + i * p.n + j, count);
#else
            finish_sums(v, c + i * (OFFSET)p.c.row + j * (OFFSET)p.c.column, (OFFSET)p.c.column,
                        d + i * (OFFSET)p.d.row + j * (OFFSET)p.d.column, (OFFSET)p.d.column, count, alpha, beta);
#endif
        }
    }
}
