// Slabs that are copied from global to local memory without passing through registers (-DALIGNED=1), in groups of
// eight numbers: what matrix_stages.cl and warpgroup_stages.cl share. stage_place(along_k, lines, line, k) is theirs:
// the word of a slab at which the group of a line and a k lies.
//
//     COPY(at, count, wanted)   the kernel's: where it is wanted, copies the next slab, of which `count` k are wanted,
//                               to slabs + at; moves on
//     PLACES_OF_COPIES          a_to, b_to: where this work-item's groups come to lie in a stage
#include "kernels/gemm/copies.cl"

// Where group `load` of a work-item lies in a slab.
static inline int group_line(uint item, int load, int along_k, int lines)
{
    const int group = item + load * ITEMS;
    return along_k ? group / (SLAB_K / 8) : group % (lines / 8) * 8;
}
static inline int group_depth(uint item, int load, int along_k, int lines)
{
    const int group = item + load * ITEMS;
    return along_k ? group % (SLAB_K / 8) * 8 : group / (lines / 8);
}

// Of `depth` k of a slab. Lines beyond the last repeat it, or by warpgroups are not copied: an H100 took 118 us for 47
// where half of all lines were one.
#if WARPGROUPS && !EMULATED   // of simulators some complain of what nobody wrote
#define IS_LINE(line, s) (line <= (int)(s).last)
#else
#define IS_LINE(line, s) 1
#endif
#define COPY_SLAB(to, places, count, matrix, far, s, depth, wanted)                                                   \
    UNROLL for (int load = 0; load < count; ++load)                                                                   \
    {                                                                                                                 \
        const int line = group_line(item, load, s.along_k, s.lines), k = group_depth(item, load, s.along_k, s.lines); \
        const OFFSET near = min((OFFSET)line, s.along_k ? s.last : s.last / 8 * 8) * s.line_step + k * s.k_step;      \
        copy_sixteen((to) + places[load], (const __global uchar*)(matrix) + ((far) + near),                           \
                     (depth) < SLAB_K && k >= (depth), (wanted) && IS_LINE(line, s));                                 \
    }

// The first slab, which has `first` k, and those behind it of `all` that the first `stages` take.
#define COPY_FIRST_SLABS(stages, all)                                                                                 \
    COPY(0, first, 1)                                                                                                 \
    END_OF_COPIES                                                                                                     \
    UNROLL for (int stage = 1; stage < stages; ++stage)                                                               \
    {                                                                                                                 \
        COPY(stage * STAGE, SLAB_K, all > stage)                                                                      \
        END_OF_COPIES                                                                                                 \
    }

// COPY of kernels that read both operands from matrices: a and b from bytes a_far and b_far on.
#define COPY_SLABS(at, count, wanted)                                                                                 \
    {                                                                                                                 \
        COPY_SLAB(slabs + (at), a_to, A_LOADS, a, a_far, from_a, count, wanted)                                       \
        COPY_SLAB(slabs + (at), b_to, B_LOADS, b, b_far, from_b, count, wanted)                                       \
        a_far += (count)*from_a.k_step;                                                                               \
        b_far += (count)*from_b.k_step;                                                                               \
    }

#define PLACES_OF_COPIES                                                                                              \
    int a_to[A_LOADS], b_to[B_LOADS];                                                                                 \
    UNROLL for (int load = 0; load < A_LOADS; ++load)                                                                 \
        a_to[load] = stage_place(A_ALONG_K, BLOCK_M, group_line(item, load, A_ALONG_K, BLOCK_M),                      \
                                 group_depth(item, load, A_ALONG_K, BLOCK_M));                                        \
    UNROLL for (int load = 0; load < B_LOADS; ++load)                                                                 \
        b_to[load] = A_SLAB + stage_place(B_ALONG_K, BLOCK_N, group_line(item, load, B_ALONG_K, BLOCK_N),             \
                                          group_depth(item, load, B_ALONG_K, BLOCK_N));
