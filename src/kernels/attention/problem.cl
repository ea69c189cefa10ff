// The problem as kernels see it (problem.hpp). Options: -DX=<dtype of the tensors>, -DREAL=<float or double>.
#include "core/dtype.cl"
#ifdef CLPRIM_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef struct {
    long batch, head, row, column;   // strides in elements
} heads_layout;

typedef struct {
    long batch, heads, kv_heads, queries, keys, size, value_size;
    heads_layout q, k, v, y, mask;
    long causal_offset;
#ifdef SOFTCAP
    short causal, masked;
    float softcap;
#else
    int causal, masked;   // halves take registers that others lack
#endif
} attention_problem;
#ifdef SOFTCAP
#define SOFTCAP_OF(p) (p).softcap
#else
#define SOFTCAP_OF(p) 0.0f
#endif

// Of backward: the gradients' layouts, and whether the owner of keys also writes the queries' gradient.
typedef struct {
    heads_layout y, q, k, v;
    int want_q, reserved;
} gradient_layouts;

// A probability is kept where 24 random bits are below `threshold`, and multiplied by `factor`.
typedef struct {
    ulong seed, stream;
    uint threshold;
    float factor;
} attention_dropout;

#define LOG2_E ((REAL)1.4426950408889634)
#define LN_2 ((REAL)0.6931471805599453)

// A number of the mask to the base 2. What is finite stays so, as the numbers of a row in which all keys have the least
// one are alike: its probabilities are, too. Not in backward, where such a row has no gradient.
static inline REAL mask_to_base_2(REAL m)
{
    const REAL scaled = LOG2_E * m;
#ifdef KEEP_FINITE
    return scaled == (REAL)-INFINITY ? m : scaled;
#else
    return scaled;
#endif
}

#define INPUT(name) const __global storage_t(X)* restrict name, ulong name##_offset
#define OUTPUT(name) __global storage_t(X)* restrict name, ulong name##_offset
#define BACKWARD_INPUTS                                                                                     \
    INPUT(q), INPUT(k), INPUT(v), INPUT(mask), INPUT(grad_y), const __global REAL* logsumexp,               \
        ulong logsumexp_offset, const __global REAL* delta, ulong delta_offset
#define BACKWARD_SCALARS attention_problem p, gradient_layouts grad, attention_dropout dropout, REAL scale
#define AT_HEAD(layout, b, h) ((b) * (layout).batch + (h) * (layout).head)

// How many of the keys queries [0, queries) see.
static inline long visible_keys(const attention_problem* p, long queries)
{
    return p->causal ? max(0L, min(p->keys, queries + p->causal_offset)) : p->keys;
}

// The first key that query i does not see; may be negative.
static inline long first_hidden(const attention_problem* p, long i)
{
    return p->causal ? i + p->causal_offset + 1 : p->keys;
}

// The first query that sees key j.
static inline long first_query(const attention_problem* p, long j)
{
    return p->causal ? max(0L, j - p->causal_offset) : 0;
}

// logsumexp to the base 2 at which nothing is left of a row that sees no key, or is not there.
static inline REAL exponent_of(REAL logsumexp, int there)
{
    return there && logsumexp != (REAL)-INFINITY ? logsumexp * LOG2_E : (REAL)INFINITY;
}
