// Slabs of matrix_tiles.cl that are copied from global to local memory without passing through registers, several of
// them ahead (ENGINE_MMA, -DSTAGES=2 or more, -DALIGNED=1): `STAGES` slabs lie in local memory, and fragments are
// loaded one step of FRAGMENT_K before they are multiplied.
//
//     BEGIN_STAGES            where this work-item's groups of eight come to lie, and where its lanes' fragments do
//     MULTIPLY_DEPTH(depth)  sums += A B over `depth` k by the kernel's COPY (copied_slabs.cl)
//
// A group of work-items that arrives at a barrier has loaded all fragments of the slab before it, so the slab that
// comes next may be copied over it.
//
// There is nothing between lines: groups of eight neighbours change places with those beside them, so that eight lines
// at one k, or eight k of one line, lie in different banks.
#define STEPS (SLAB_K / FRAGMENT_K)   // of a slab
#define STAGE (A_SLAB + B_SLAB)
#if STEPS > 2 || (STEPS == 1 && STAGES % 2)
#error "fragments take turns in two sets of registers"
#endif

// A word of a slab, of the group of eight at a line and a k.
static inline int stage_place(int along_k, int lines, int line, int k)
{
    if (along_k)
        return line * (SLAB_K / 2) + (k / 8 ^ line / (64 / SLAB_K) % (SLAB_K / 8)) * 4;
    return k * (lines / 2) + (line / 8 ^ (lines % 64 ? k / 2 % 4 : k % 8)) * 4;
}

#include "kernels/gemm/copied_slabs.cl"

// Lines of 16 that fragment i takes follow at a constant distance along k, k at one across it.
#define PLACES(along_k, fragments) ((along_k) ? STEPS : (fragments))
#define PLACE_OF(places, along_k, lines, i, step)                                                                     \
    ((along_k) ? places[step] + (i) * (16 * SLAB_K / 2) : places[i] + (step) * (16 * (lines) / 2))
#define BEGIN_STAGES                                                                                                  \
    PLACES_OF_COPIES                                                                                                  \
    int a_places[PLACES(A_ALONG_K, FRAGMENTS_M)], b_places[PLACES(B_ALONG_K, FRAGMENTS_N)];                           \
    UNROLL for (int i = 0; i < PLACES(A_ALONG_K, FRAGMENTS_M); ++i)                                                   \
        a_places[i] = A_ALONG_K ? stage_place(1, BLOCK_M, row + g.lane % 16, 16 * i + g.lane / 16 * 8)                \
                                : stage_place(0, BLOCK_M, row + 16 * i + g.lane / 8 % 2 * 8,                          \
                                              g.lane % 8 + g.lane / 16 * 8);                                          \
    UNROLL for (int j = 0; j < PLACES(B_ALONG_K, FRAGMENTS_N); ++j)                                                   \
        b_places[j] = A_SLAB + (B_ALONG_K ? stage_place(1, BLOCK_N, column + g.lane % 8 + g.lane / 16 * 8,            \
                                                        16 * j + g.lane / 8 % 2 * 8)                                  \
                                          : stage_place(0, BLOCK_N, column + 16 * j + g.lane / 16 * 8, g.lane % 16));

#define LOAD_STEP(which, stage, step)                                                                                 \
    UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                      \
        a_step[which][i] = load_matrices(g, slabs, PLACE_OF(a_places, A_ALONG_K, BLOCK_M, i, step), (stage)*STAGE,    \
                                         !A_ALONG_K);                                                                 \
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)                                                                      \
        b_step[which][j] = load_matrices(g, slabs, PLACE_OF(b_places, B_ALONG_K, BLOCK_N, j, step), (stage)*STAGE,    \
                                         !B_ALONG_K);

#define MULTIPLY_STEP(which)                                                                                          \
    UNROLL for (int j = 0; j < FRAGMENTS_N; ++j)                                                                      \
        UNROLL for (int i = 0; i < FRAGMENTS_M; ++i)                                                                  \
            sums[i][j] = multiply_add(g, a_step[which][i], b_step[which][j], sums[i][j]);

// The slab that has been multiplied makes room; the first fragments of the next one are loaded.
#define NEXT_STAGE(stage, which)                                                                                      \
    WAIT_FOR_COPIES(STAGES - 2)                                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                     \
    LOAD_STEP(which, ((stage) + 1) % STAGES, 0)                                                                       \
    COPY((stage)*STAGE, SLAB_K, left > STAGES)                                                                        \
    END_OF_COPIES

// One slab, whose first fragments have been loaded: `which` of two sets of registers holds them. No loop stands around
// the barrier that a compiler would have to unroll.
#if EMULATED   // once is enough to compile
#define MULTIPLY_STAGE(stage, which)                                                                                  \
    for (int step = 0; step < STEPS; ++step) {                                                                        \
        const int now = ((which) + step) % 2;                                                                         \
        if (step == STEPS - 1) {                                                                                      \
            NEXT_STAGE(stage, 1 - now)                                                                                \
        } else {                                                                                                      \
            LOAD_STEP(1 - now, stage, step + 1)                                                                       \
        }                                                                                                             \
        MULTIPLY_STEP(now)                                                                                            \
    }
#elif STEPS == 1
#define MULTIPLY_STAGE(stage, which)                                                                                  \
    NEXT_STAGE(stage, 1 - (which))                                                                                    \
    MULTIPLY_STEP(which)
#else
#define MULTIPLY_STAGE(stage, which)                                                                                  \
    LOAD_STEP(1, stage, 1)                                                                                            \
    MULTIPLY_STEP(0)                                                                                                  \
    NEXT_STAGE(stage, 0)                                                                                              \
    MULTIPLY_STEP(1)
#endif

#define STAGE_OR_END(stage)                                                                                           \
    MULTIPLY_STAGE(stage, (stage)*STEPS % 2)                                                                          \
    if (--left == 0)                                                                                                  \
        break;
#if STAGES > 2
#define THIRD_STAGE STAGE_OR_END(2)
#else
#define THIRD_STAGE
#endif
#if STAGES > 3
#define FOURTH_STAGE STAGE_OR_END(3)
#else
#define FOURTH_STAGE
#endif
#if STAGES > 4
#define LATER_STAGES STAGE_OR_END(4) STAGE_OR_END(5)
#else
#define LATER_STAGES
#endif
#if EMULATED
#define MULTIPLY_ALL_STAGES                                                                                           \
    for (int stage = 0; left > 0; --left, stage = (stage + 1) % STAGES) {                                             \
        MULTIPLY_STAGE(stage, stage* STEPS % 2)                                                                       \
    }
#else
#define MULTIPLY_ALL_STAGES                                                                                           \
    for (;;) {                                                                                                        \
        STAGE_OR_END(0)                                                                                               \
        STAGE_OR_END(1)                                                                                               \
        THIRD_STAGE                                                                                                   \
        FOURTH_STAGE                                                                                                  \
        LATER_STAGES                                                                                                  \
    }
#endif
// What is left over when k is cut into slabs comes first.
#define MULTIPLY_DEPTH(depth)                                                                                        \
    if ((depth) > 0) {                                                                                                \
        const int over = (int)((depth) % SLAB_K), first = over ? over : SLAB_K;                                       \
        int left = (int)(((depth)-first) / SLAB_K) + 1;                                                               \
        fragment_a a_step[2][FRAGMENTS_M];                                                                            \
        fragment_b b_step[2][FRAGMENTS_N];                                                                            \
        COPY_FIRST_SLABS(STAGES, left)                                                                                \
        WAIT_FOR_COPIES(STAGES - 1)                                                                                   \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
        LOAD_STEP(0, 0, 0)                                                                                            \
        MULTIPLY_ALL_STAGES                                                                                           \
        WAIT_FOR_COPIES(0)                                                                                            \
    }
