// Dropout of one probability. Needs problem.cl.
#if defined(CLPRIM_DEVICE_GPU) && defined(cl_intel_subgroups)   // Intel's compiler spills sums for ten rounds at once
#define PHILOX_ROUNDS _Pragma("unroll 1")
#endif
#include "kernels/random/philox.cl"

// 24 random bits for each of the four keys from j, a multiple of four, on, in row (b heads + h) queries + i.
static inline uint4 dropout_bits(const attention_problem* p, const attention_dropout* dropout, ulong row, long j)
{
    return philox(row * (ulong)((p->keys + 3) / 4) + j / 4, dropout->stream, dropout->seed) >> 8;
}

// What the probability of key j is multiplied by, in such a row.
static inline REAL dropout_factor(const attention_problem* p, const attention_dropout* dropout, ulong row, long j)
{
    const uint4 words = dropout_bits(p, dropout, row, j);
    const uint word = j % 4 == 0 ? words.x : j % 4 == 1 ? words.y : j % 4 == 2 ? words.z : words.w;
    return word < dropout->threshold ? (REAL)dropout->factor : (REAL)0;
}
