// What products by matrix instructions (fragments.cl) share: how a work-group of SUB_GROUPS_M x SUB_GROUPS_N sub-groups
// owns a block of C, each of them FRAGMENTS_M x FRAGMENTS_N fragments of it. Slabs of A and B pass through local
// memory, two in turn: while one is multiplied, the next one is on its way from global memory into registers.
//
// Nothing is tested inside the loop: lines beyond the edge repeat the last one, and their sums are not written; what is
// left over when k is cut into slabs comes first, the rest filled with zeros.
//
//     BEGIN_MATRIX_TILE             item, team, g; row, column of the sub-group in the block; slabs; sums, which are 0
//     BEGIN_SLABS                   a_line, a_k, b_line, b_k: where this work-item's first groups of a slab lie
//     MULTIPLY_DEPTH(depth)         sums += A B over `depth` k. FETCH(count) is the kernel's: brings the next slab, of
//                                   which `count` k are wanted, to a_next[A_LOADS] and b_next[B_LOADS], and moves on
//     MULTIPLY_RUNS(runs, slabs, BODY)   the same in runs of whole slabs, each of which begins with the statement, for
//                                       run `begun`. With -DPAIRS=1 there is an even number of slabs in a run: where
//                                       PAIRED, FETCH(0) brings a slab and moves on by two, FETCH(1) brings the slab
//                                       behind it, else FETCH(0) brings one and moves on by one
//     EACH_QUAD_OF_SUMS(i, j, v, BODY)   for the sums (matrix_sums.cl)
//
// Options: those of fragments.cl and -DX, and
//   -DSUB_GROUPS_M=.. -DSUB_GROUPS_N=.. -DFRAGMENTS_M=.. -DFRAGMENTS_N=..
//   -DA_ALONG_K=0|1 -DB_ALONG_K=0|1    whether k is the direction in which neighbours are brought
//   -DALIGNED=0|1                      whether that direction is contiguous, all addresses multiples of eight elements
//   -DNEIGHBOURS=0|1                   where it is not ALIGNED: whether it is contiguous, and ten elements from each on
//                                      may be read
//   -DOFFSET=uint|int|long             holds every distance in bytes within a matrix; uint those from the beginning of
//                                      its buffer on, which many GPUs add to an address in one instruction
//   -DBLOCKS=0|1                       1: there are no slabs
//   -DFOUND_SLABS=0|1                  1: where slabs lie is found once (FIND_SLAB and FETCH_FOUND of matrix_slabs.cl)
//   -DSTAGES=0|2..                     how many slabs lie in local memory by matrix_stages.cl, 0 without it
#include "kernels/gemm/fragments.cl"

#if EMULATED
#define UNROLL
#define SUB_GROUP_SIZE
#else
#define UNROLL _Pragma("unroll")
#if defined(ENGINE_DPAS16) || defined(ENGINE_DPAS8)
#define SUB_GROUP_SIZE __attribute__((intel_reqd_sub_group_size(LANES)))
#define ROLLED _Pragma("unroll 1")   // this compiler unrolls until registers spill
#else
#define SUB_GROUP_SIZE
#endif
#endif
#ifndef ROLLED
#define ROLLED
#endif
// Loads stay before what follows. AMD's compiler would bring them next to where their values are stored, one after the
// other, and wait for each.
#if defined(__AMDGCN__) && defined(__has_builtin) && !EMULATED
#if __has_builtin(__builtin_amdgcn_sched_barrier)
#define LOADS_COME_FIRST __builtin_amdgcn_sched_barrier(0);
#endif
#endif
#ifndef LOADS_COME_FIRST
#define LOADS_COME_FIRST
#endif

// What AMD's compiler cannot see through: a value that may be another one from here on.
#if defined(__AMDGCN__) && !EMULATED
#define MIGHT_CHANGE(value) __asm__ volatile("" : "+v"(value));
#else
#define MIGHT_CHANGE(value) ;
#endif

// Sums of sub-groups of 8 that leave no registers for all fragments of B at once, nor for two slabs' places.
#ifdef B_AFTER_B   // of kernels that have other things in them
#elif defined(ENGINE_DPAS8) && FRAGMENTS_M * FRAGMENTS_N > 12
#define B_AFTER_B 1
#else
#define B_AFTER_B 0
#endif
#define PAIRED (PAIRS && !B_AFTER_B)

#define ITEMS (SUB_GROUPS_M * SUB_GROUPS_N * LANES)
#define ROWS (FRAGMENTS_M * FRAGMENT_M)      // of a sub-group
#define COLUMNS (FRAGMENTS_N * FRAGMENT_N)
#define BLOCK_M (SUB_GROUPS_M * ROWS)
#define BLOCK_N (SUB_GROUPS_N * COLUMNS)
#ifndef STAGES
#define STAGES 0
#endif
#define LINE_PITCH (STAGES ? SLAB_K / 2 : SLAB_PITCH)
#define A_SLAB (BLOCK_M * LINE_PITCH)        // words
#define B_SLAB (BLOCK_N * LINE_PITCH)
#define A_LOADS (BLOCK_M * SLAB_K / 8 / ITEMS)   // groups of eight neighbours that a work-item brings
#define B_LOADS (BLOCK_N * SLAB_K / 8 / ITEMS)
#define SLAB_WORDS (BLOCKS ? 0 : (STAGES ? STAGES : 2) * (A_SLAB + B_SLAB))
#define LOCAL_WORDS (SLAB_WORDS > DUMPED ? SLAB_WORDS : DUMPED)

#if !BLOCKS
#include "kernels/gemm/matrix_slabs.cl"

static inline void multiply_slabs(sub_group g, fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N], const __local uint* slabs,
                                  int a_begin, int b_begin)
{
    UNROLL for (int k = 0; k < SLAB_K; k += FRAGMENT_K)
    {
#if B_AFTER_B || (defined(ENGINE_MMA) && !(defined(WHOLE_TAPS) && !WHOLE_TAPS))
        // Fragments of B one after the other.
        fragment_a a[FRAGMENTS_M];
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            a[i] = load_a(g, slabs, a_begin, A_ALONG_K, BLOCK_M, i, k);
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
        {
            const fragment_b b = load_b(g, slabs, b_begin, B_ALONG_K, BLOCK_N, j, k);
            UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
                sums[i][j] = multiply_add(g, a[i], b, sums[i][j]);
        }
#else
        fragment_a a[FRAGMENTS_M];
        fragment_b b[FRAGMENTS_N];
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            a[i] = load_a(g, slabs, a_begin, A_ALONG_K, BLOCK_M, i, k);
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
            b[j] = load_b(g, slabs, b_begin, B_ALONG_K, BLOCK_N, j, k);
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)
            UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)
                sums[i][j] = multiply_add(g, a[i], b[j], sums[i][j]);
#endif
    }
}

#endif

#include "kernels/gemm/matrix_sums.cl"

#if EMULATED
#define DECLARE_SUB_GROUP                                                                                             \
    __local uint exchange[SUB_GROUPS_M * SUB_GROUPS_N * EXCHANGE_WORDS];                                              \
    const sub_group g = {item % LANES, exchange + team * EXCHANGE_WORDS};
#else
#define DECLARE_SUB_GROUP const sub_group g = {item % LANES, slabs};
#endif
// Sums that stay in their registers from the first product on, where they fill them.
#if defined(ENGINE_WMMA) && FRAGMENTS_M * FRAGMENTS_N > 12 && FOUND_SLABS
#define HOLD_SUMS                                                                                                     \
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                      \
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)                                                                  \
            MIGHT_CHANGE(sums[i][j])
#else
#define HOLD_SUMS
#endif
#define BEGIN_MATRIX_TILE                                                                                             \
    __local uint4 memory[(LOCAL_WORDS + 3) / 4];                                                                      \
    __local uint* slabs = (__local uint*)memory;                                                                      \
    const uint item = get_local_id(0);                                                                                \
    const int team = item / LANES;                                                                                    \
    DECLARE_SUB_GROUP                                                                                                 \
    const int row = team / SUB_GROUPS_N * ROWS, column = team % SUB_GROUPS_N * COLUMNS;                               \
    fragment_sums sums[FRAGMENTS_M][FRAGMENTS_N];                                                                     \
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                      \
        UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)                                                                  \
            sums[i][j] = (fragment_sums)0;                                                                            \
    HOLD_SUMS

#if !BLOCKS
// Where in a slab this work-item's first groups lie.
#define BEGIN_SLABS                                                                                                   \
    const int a_line = first_line(item, A_ALONG_K, BLOCK_M), a_k = first_depth(item, A_ALONG_K, BLOCK_M);             \
    const int b_line = first_line(item, B_ALONG_K, BLOCK_N), b_k = first_depth(item, B_ALONG_K, BLOCK_N);

#define MULTIPLY_SLAB(at, fetch_next)                                                                                 \
    {                                                                                                                 \
        PLACE_SLAB(a, slabs + (at + a_at), a_next, A_LOADS, A_ALONG_K, BLOCK_M)                                       \
        PLACE_SLAB(b, slabs + (at + A_SLAB + b_at), b_next, B_LOADS, B_ALONG_K, BLOCK_N)                              \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        if (fetch_next)                                                                                               \
            FETCH(SLAB_K)                                                                                             \
        LOADS_COME_FIRST                                                                                              \
        MULTIPLY_AT(at)                                                                                               \
        now = A_SLAB + B_SLAB - now;                                                                                  \
    }
#ifndef SLABS_IN_PAIRS   // two slabs in a step of the loop, whose places in local memory are constants then
// Intel's registers sums and fragments fill, and those of gfx11, whose lanes hold operands twice, in the large tile
// where distances are added in the loop as well.
#if defined(ENGINE_DPAS16) || defined(ENGINE_DPAS8) ||                                                                \
    (defined(ENGINE_WMMA) && FRAGMENTS_M * FRAGMENTS_N > 12 && !POINTERS_MOVE)
#define SLABS_IN_PAIRS 0
#else
#define SLABS_IN_PAIRS 1
#endif
#endif
#if EMULATED   // once is enough to compile
#define MULTIPLY_ALL_SLABS                                                                                            \
    for (; left >= 0; --left)                                                                                         \
        MULTIPLY_SLAB(now, left > 0)
#elif SLABS_IN_PAIRS
#define MULTIPLY_ALL_SLABS                                                                                            \
    if (left % 2)                                                                                                     \
        MULTIPLY_SLAB(A_SLAB + B_SLAB, 1)                                                                             \
    for (left /= 2; left > 0; --left) {                                                                               \
        MULTIPLY_SLAB(0, 1)                                                                                           \
        MULTIPLY_SLAB(A_SLAB + B_SLAB, 1)                                                                             \
    }                                                                                                                 \
    MULTIPLY_SLAB(0, 0)
#else
#define MULTIPLY_ALL_SLABS                                                                                            \
    for (; left > 0; --left)                                                                                          \
        MULTIPLY_SLAB(now, 1)                                                                                         \
    MULTIPLY_SLAB(now, 0)
#endif
#if !STAGES
#define MULTIPLY_DEPTH(depth)                                                                                         \
    {                                                                                                                 \
        const int a_at = a_place(A_ALONG_K, BLOCK_M, a_line, a_k), b_at = b_place(B_ALONG_K, BLOCK_N, b_line, b_k);   \
        const int a_begin = begin_a(g, A_ALONG_K, BLOCK_M, row), b_begin = begin_b(g, B_ALONG_K, BLOCK_N, column);    \
        const int over = (int)((depth) % SLAB_K), first = over || (depth) == 0 ? over : SLAB_K;                       \
        int left = (int)(((depth)-first) / SLAB_K), now = 0;                                                          \
        uint4 a_next[A_LOADS], b_next[B_LOADS];                                                                       \
        FETCH(first)                                                                                                  \
        MULTIPLY_ALL_SLABS                                                                                            \
    }
#endif
#define PLACE_SLABS(begin)                                                                                            \
    {                                                                                                                 \
        FETCHED                                                                                                       \
        PLACE_SLAB(a, slabs + (begin + a_at), a_next, A_LOADS, A_ALONG_K, BLOCK_M)                                    \
        PLACE_SLAB(b, slabs + (begin + A_SLAB + b_at), b_next, B_LOADS, B_ALONG_K, BLOCK_N)                           \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
    }
#if EMULATED
#define MULTIPLY_RUNS(runs, slabs_of_run, BODY)                                                                       \
    {                                                                                                                 \
        BEGIN_RUNS                                                                                                    \
        for (int left = (runs) * (slabs_of_run), in_run = 0; left >= 0; --left, --in_run) {                           \
            if (left > 0) {                                                                                           \
                if (in_run == 0) {                                                                                    \
                    BODY                                                                                              \
                    ++begun;                                                                                          \
                    in_run = (slabs_of_run);                                                                          \
                }                                                                                                     \
                FETCH(PAIRED ? in_run % 2 : 0)                                                                        \
            }                                                                                                         \
            if (left < (runs) * (slabs_of_run)) {                                                                     \
                multiply_slabs(g, sums, slabs, now + a_begin, now + A_SLAB + b_begin);                                \
                now = A_SLAB + B_SLAB - now;                                                                          \
            }                                                                                                         \
            PLACE_SLABS(now)                                                                                          \
        }                                                                                                             \
    }
// Places in local memory are constants, and so is how far the second slab's values lie from the first's. Behind the
// last run its beginning is brought once more, which is less than the code that would not.
#elif PAIRED
#define NEXT_SLAB(which)                                                                                              \
    FETCH(which)                                                                                                      \
    LOADS_COME_FIRST                                                                                                  \
    MULTIPLY_AT((1 - which) * (A_SLAB + B_SLAB))                                                                      \
    PLACE_SLABS(which * (A_SLAB + B_SLAB))
#define MULTIPLY_RUNS(runs, slabs_of_run, BODY)                                                                       \
    {                                                                                                                 \
        BEGIN_RUNS                                                                                                    \
        {                                                                                                             \
            BODY                                                                                                      \
        }                                                                                                             \
        FETCH(0)                                                                                                      \
        PLACE_SLABS(now)                                                                                              \
        for (int left_runs = (runs); left_runs > 0; --left_runs) {                                                    \
            for (int left = (slabs_of_run) / 2 - 1; left > 0; --left) {                                               \
                NEXT_SLAB(1)                                                                                          \
                NEXT_SLAB(0)                                                                                          \
            }                                                                                                         \
            NEXT_SLAB(1)                                                                                              \
            begun = min(begun + 1, (runs)-1);                                                                         \
            BODY                                                                                                      \
            NEXT_SLAB(0)                                                                                              \
        }                                                                                                             \
    }
#else
#define MULTIPLY_RUNS(runs, slabs_of_run, BODY)                                                                       \
    {                                                                                                                 \
        BEGIN_RUNS                                                                                                    \
        {                                                                                                             \
            BODY                                                                                                      \
        }                                                                                                             \
        FETCH(0)                                                                                                      \
        PLACE_SLABS(now)                                                                                              \
        for (int left = (slabs_of_run)-1;; left = (slabs_of_run)) {                                                   \
            for (; left > 0; --left) {                                                                                \
                FETCH(0)                                                                                              \
                LOADS_COME_FIRST                                                                                      \
                MULTIPLY_AT(now)                                                                                      \
                now = A_SLAB + B_SLAB - now;                                                                          \
                PLACE_SLABS(now)                                                                                      \
            }                                                                                                         \
            if (++begun == (runs))                                                                                    \
                break;                                                                                                \
            BODY                                                                                                      \
        }                                                                                                             \
        MULTIPLY_AT(now)                                                                                              \
    }
#endif
#define MULTIPLY_AT(begin)                                                                                            \
    multiply_slabs(g, sums, slabs, UNIFORM((begin) + a_begin), UNIFORM((begin) + A_SLAB + b_begin));
#define BEGIN_RUNS                                                                                                    \
    const int a_at = a_place(A_ALONG_K, BLOCK_M, a_line, a_k), b_at = b_place(B_ALONG_K, BLOCK_N, b_line, b_k);       \
    const int a_begin = begin_a(g, A_ALONG_K, BLOCK_M, row), b_begin = begin_b(g, B_ALONG_K, BLOCK_N, column);        \
    int now = 0, begun = 0;                                                                                           \
    uint4 a_next[A_LOADS], b_next[B_LOADS];
#endif
