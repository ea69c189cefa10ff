// The loop of gpu_tiled.cl over several slabs in local memory (-DSTAGES=2 or more, -DALIGNED=1, -DX=float32, on GPUs of
// NVIDIA from compute capability 8.0 on): quads that lie across k are copied there past registers, which sums need, and
// STAGES - 1 slabs ahead. Those along k change places on their way and go through registers, one slab ahead.
//
// A slab that has been multiplied is written over behind the next barrier, which every work-item reaches when it is
// done with it: one barrier a slab.
#define STAGE (2 * SLAB_QUADS)   // quads of both slabs

#define COPIES_THROUGH "ca"
#include "kernels/gemm/copies.cl"

// Of a matrix whose lines are neighbours.
static inline void copy_slab(__local REAL4* slab, const __global REAL* matrix, slab_source s, int depth, int wanted,
                             int item)
{
#pragma unroll
    for (int load = 0; load < SLAB_LOADS; ++load) {
        const int line = slab_line(item, load, 0), k = slab_depth(item, load, 0);
        copy_sixteen(slab + k * SLAB_PITCH + line / 4, matrix + (min((OFFSET)line, s.last / 4 * 4) + k * s.k_step),
                     depth < SLAB_K && k >= depth, wanted);
    }
}

#define MOVE_ON_BY(matrix, s, depth) matrix += (depth) * (s).k_step;

// Copied: the first slab, those ahead of the loop, the one that the loop asks for.
// Through registers: the first slab is placed and the second one fetched; the loop places one and fetches another.
#define FIRST_COPIED(matrix, s, at, next)                                                                             \
    copy_slab(slabs + (at), matrix, s, first, 1, item);                                                               \
    MOVE_ON_BY(matrix, s, first)
#define AHEAD_COPIED(matrix, s, at)                                                                                   \
    copy_slab(slabs + (at), matrix, s, SLAB_K, left > ahead, item);                                                   \
    MOVE_ON_BY(matrix, s, SLAB_K)
#define NEXT_COPIED(matrix, s, at, next) AHEAD_COPIED(matrix, s, behind + (at))
#define FIRST_PLACED(matrix, s, at, next)                                                                             \
    fetch_slab(next, matrix, s, first, item);                                                                         \
    place_slab(slabs + (at), next, item, 1);                                                                          \
    MOVE_ON_BY(matrix, s, first)                                                                                      \
    if (left > 1)                                                                                                     \
        fetch_slab(next, matrix, s, SLAB_K, item);                                                                    \
    MOVE_ON_BY(matrix, s, SLAB_K)
#define NEXT_PLACED(matrix, s, at, next)                                                                              \
    if (left > 1)                                                                                                     \
        place_slab(slabs + after + (at), next, item, 1);                                                              \
    if (left > 2)                                                                                                     \
        fetch_slab(next, matrix, s, SLAB_K, item);                                                                    \
    MOVE_ON_BY(matrix, s, SLAB_K)

#if A_ALONG_K
#define FIRST_A FIRST_PLACED(a, from_a, 0, a_next)
#define AHEAD_A(stage)
#define NEXT_A NEXT_PLACED(a, from_a, 0, a_next)
#else
#define FIRST_A FIRST_COPIED(a, from_a, 0, a_next)
#define AHEAD_A(stage) AHEAD_COPIED(a, from_a, (stage) * STAGE)
#define NEXT_A NEXT_COPIED(a, from_a, 0, a_next)
#endif
#if B_ALONG_K
#define FIRST_B FIRST_PLACED(b, from_b, SLAB_QUADS, b_next)
#define AHEAD_B(stage)
#define NEXT_B NEXT_PLACED(b, from_b, SLAB_QUADS, b_next)
#else
#define FIRST_B FIRST_COPIED(b, from_b, SLAB_QUADS, b_next)
#define AHEAD_B(stage) AHEAD_COPIED(b, from_b, (stage) * STAGE + SLAB_QUADS)
#define NEXT_B NEXT_COPIED(b, from_b, SLAB_QUADS, b_next)
#endif

// The stage before one in turn, and the one after it, by the quad at which it begins.
#if STAGES == 2
#define STAGE_AFTER(now) (STAGE - (now))
#define STAGE_BEFORE(now) (STAGE - (now))
#else
#define STAGE_AFTER(now) ((now) == (STAGES - 1) * STAGE ? 0 : (now) + STAGE)
#define STAGE_BEFORE(now) ((now) == 0 ? (STAGES - 1) * STAGE : (now) - STAGE)
#endif

// sums += A B over `depth` k, of which what is left over when k is cut into slabs comes first.
#define MULTIPLY_STAGES(depth)                                                                                        \
    {                                                                                                                 \
        int left = (int)(((depth) - first) / SLAB_K) + 1, now = 0;                                                    \
        FIRST_A                                                                                                       \
        FIRST_B                                                                                                       \
        END_OF_COPIES                                                                                                 \
        _Pragma("unroll") for (int ahead = 1; ahead < STAGES - 1; ++ahead)                                            \
        {                                                                                                             \
            AHEAD_A(ahead)                                                                                            \
            AHEAD_B(ahead)                                                                                            \
            END_OF_COPIES                                                                                             \
        }                                                                                                             \
        for (;;) {                                                                                                    \
            const int ahead = STAGES - 1;                                                                             \
            const int after = STAGE_AFTER(now), behind = STAGE_BEFORE(now);                                           \
            WAIT_FOR_COPIES(STAGES - 2)                                                                               \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
            NEXT_A                                                                                                    \
            NEXT_B                                                                                                    \
            END_OF_COPIES                                                                                             \
            multiply_slabs(sums, slabs + now, slabs + now + SLAB_QUADS, x, y);                                        \
            if (--left == 0)                                                                                          \
                break;                                                                                                \
            now = after;                                                                                              \
        }                                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);   /* activations share the memory of slabs */                                   \
    }
