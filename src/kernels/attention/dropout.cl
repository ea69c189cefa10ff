// Dropout of one probability. Needs problem.cl.
#include "kernels/random/philox.cl"

// What the probability of key j is multiplied by, in row (b heads + h) queries + i.
static inline REAL dropout_factor(const attention_problem* p, const attention_dropout* dropout, ulong row, long j)
{
    const uint4 words = philox(row * (ulong)((p->keys + 3) / 4) + j / 4, dropout->stream, dropout->seed);
    const uint word = j % 4 == 0 ? words.x : j % 4 == 1 ? words.y : j % 4 == 2 ? words.z : words.w;
    return word >> 8 < dropout->threshold ? (REAL)dropout->factor : (REAL)0;
}
