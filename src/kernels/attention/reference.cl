// Attention as it is defined, one work-item a row, for heads of any size. Options: those of problem.cl, and -DDROPOUT.
#include "kernels/attention/rows.cl"
#include "kernels/attention/dropout.cl"

// The score of query i and key j, from pointers to the heads' first elements.
static inline REAL score(const attention_problem* p, const __global storage_t(X)* q, const __global storage_t(X)* k,
                         const __global storage_t(X)* mask, long i, long j, REAL scale)
{
    if (p->causal && j > i + p->causal_offset)
        return -INFINITY;
    REAL s = scale * dot_rows(q + i * p->q.row, p->q.column, k + j * p->k.row, p->k.column, p->size);
#ifdef SOFTCAP
    s = p->softcap * tanh(s / p->softcap);
#endif
    return p->masked ? s + (REAL)load(X, mask, i * p->mask.row + j * p->mask.column) : s;
}

#ifdef DROPOUT
#define FACTOR(place, i, j) dropout_factor(&p, &dropout, ((place).b * p.heads + (place).h) * p.queries + (i), j)
#else
#define FACTOR(place, i, j) (REAL)1
#endif

__kernel void forward(INPUT(q), INPUT(k), INPUT(v), INPUT(mask), OUTPUT(y), __global REAL* logsumexp,
                      ulong logsumexp_offset, __global REAL* sums, ulong sums_offset, attention_problem p,
                      attention_dropout dropout, REAL scale)
{
    const long row = get_global_id(0);
    if (row >= p.batch * p.heads * p.queries)
        return;
    const place at = place_of(&p, row, p.heads, p.queries);
    q += q_offset + AT_HEAD(p.q, at.b, at.h);
    k += k_offset + AT_HEAD(p.k, at.b, at.kv_h);
    v += v_offset + AT_HEAD(p.v, at.b, at.kv_h);
    mask += mask_offset + AT_HEAD(p.mask, at.b, at.h);
    y += y_offset + AT_HEAD(p.y, at.b, at.h) + at.i * p.y.row;
    sums += sums_offset + row * p.value_size;
    REAL best = -INFINITY, total = 0;
    for (long j = 0; j < p.keys; ++j) {
        const REAL s = score(&p, q, k, mask, at.i, j, scale);
        best = s > best ? s : best;
    }
    const REAL reference = best == (REAL)-INFINITY ? (REAL)0 : best;
    for (long e = 0; e < p.value_size; ++e)
        sums[e] = 0;
    for (long j = 0; j < p.keys; ++j) {
        const REAL probability = exp(score(&p, q, k, mask, at.i, j, scale) - reference), factor = FACTOR(at, at.i, j);
        total += probability;
        for (long e = 0; e < p.value_size; ++e)
            sums[e] += factor * probability * (REAL)load(X, v, j * p.v.row + e * p.v.column);
    }
    for (long e = 0; e < p.value_size; ++e)
        store(X, y, e * p.y.column, (compute_t(X))(total == 0 ? (REAL)0 : sums[e] / total));
    if (logsumexp)
        logsumexp[logsumexp_offset + row] = best + log(total);
}

// The probability of a score; a row that sees nothing has none.
static inline REAL probability_of(REAL s, REAL logsumexp)
{
    return logsumexp == (REAL)-INFINITY ? (REAL)0 : exp(s - logsumexp);
}

__kernel void backward_queries(BACKWARD_INPUTS, OUTPUT(grad_q), __global REAL* sums, ulong sums_offset,
                               BACKWARD_SCALARS)
{
    const long row = get_global_id(0);
    if (row >= p.batch * p.heads * p.queries)
        return;
    const place at = place_of(&p, row, p.heads, p.queries);
    q += q_offset + AT_HEAD(p.q, at.b, at.h);
    k += k_offset + AT_HEAD(p.k, at.b, at.kv_h);
    v += v_offset + AT_HEAD(p.v, at.b, at.kv_h);
    mask += mask_offset + AT_HEAD(p.mask, at.b, at.h);
    grad_y += grad_y_offset + AT_HEAD(grad.y, at.b, at.h) + at.i * grad.y.row;
    grad_q += grad_q_offset + AT_HEAD(grad.q, at.b, at.h) + at.i * grad.q.row;
    sums += sums_offset + row * p.size;
    for (long e = 0; e < p.size; ++e)
        sums[e] = 0;
    for (long j = 0; j < p.keys; ++j) {
        const REAL s = score(&p, q, k, mask, at.i, j, scale);
        const REAL grad_p =
            FACTOR(at, at.i, j) * dot_rows(grad_y, grad.y.column, v + j * p.v.row, p.v.column, p.value_size);
        const REAL grad_s = probability_of(s, logsumexp[logsumexp_offset + row]) * (grad_p - delta[delta_offset + row]);
        for (long e = 0; e < p.size; ++e)
            sums[e] += scale * grad_s * (REAL)load(X, k, j * p.k.row + e * p.k.column);
    }
    for (long e = 0; e < p.size; ++e)
        store(X, grad_q, e * grad.q.column, (compute_t(X))sums[e]);
}

__kernel void backward_keys(BACKWARD_INPUTS, OUTPUT(grad_k), OUTPUT(grad_v), __global REAL* sums, ulong sums_offset,
                            BACKWARD_SCALARS)
{
    const long row = get_global_id(0), group = p.heads / p.kv_heads;
    if (row >= p.batch * p.kv_heads * p.keys)
        return;
    const long b = row / p.keys / p.kv_heads, kv_h = row / p.keys % p.kv_heads, j = row % p.keys;
    k += k_offset + AT_HEAD(p.k, b, kv_h);
    v += v_offset + AT_HEAD(p.v, b, kv_h) + j * p.v.row;
    __global REAL* key_sums = sums + sums_offset + row * (p.size + p.value_size);
    __global REAL* value_sums = key_sums + p.size;
    for (long e = 0; e < p.size + p.value_size; ++e)
        key_sums[e] = 0;
    for (long h = kv_h * group; h < (kv_h + 1) * group; ++h)
        for (long i = 0; i < p.queries; ++i) {
            const place at = {b, h, kv_h, i};
            const __global storage_t(X)* q_head = q + q_offset + AT_HEAD(p.q, b, h);
            const __global storage_t(X)* grad_row = grad_y + grad_y_offset + AT_HEAD(grad.y, b, h) + i * grad.y.row;
            const ulong query = (b * p.heads + h) * p.queries + i;
            const REAL s = score(&p, q_head, k, mask + mask_offset + AT_HEAD(p.mask, b, h), i, j, scale);
            const REAL probability = probability_of(s, logsumexp[logsumexp_offset + query]), factor = FACTOR(at, i, j);
            const REAL grad_p = factor * dot_rows(grad_row, grad.y.column, v, p.v.column, p.value_size);
            const REAL grad_s = probability * (grad_p - delta[delta_offset + query]);
            for (long e = 0; e < p.size; ++e)
                key_sums[e] += scale * grad_s * (REAL)load(X, q_head, i * p.q.row + e * p.q.column);
            for (long e = 0; e < p.value_size; ++e)
                value_sums[e] += factor * probability * (REAL)load(X, grad_row, e * grad.y.column);
        }
    if (grad_k)
        for (long e = 0; e < p.size; ++e)
            store(X, grad_k + grad_k_offset, AT_HEAD(grad.k, b, kv_h) + j * grad.k.row + e * grad.k.column,
                  (compute_t(X))key_sums[e]);
    if (grad_v)
        for (long e = 0; e < p.value_size; ++e)
            store(X, grad_v + grad_v_offset, AT_HEAD(grad.v, b, kv_h) + j * grad.v.row + e * grad.v.column,
                  (compute_t(X))value_sums[e]);
}
