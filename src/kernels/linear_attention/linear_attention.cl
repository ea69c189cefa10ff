// Linear attention. A work-item owns one column of one head's state matrix and walks through all steps: neighbours own
// neighbouring columns, so their reads of the state lie side by side, and nothing is shared. -DX: dtype.
#include "core/dtype.cl"

typedef struct {
    uint batch, steps, heads, kv_heads, key_size, value_size;
    uint decay_size, beta_heads;      // 0: absent; decay_size 1: one for all rows of the state
} linear_attention_t;

#define TENSOR(name) const __global storage_t(X)* name, ulong name##_offset

__kernel void linear_attention(TENSOR(query), TENSOR(key), TENSOR(value), TENSOR(decay), TENSOR(beta),
                               __global float* state, ulong state_offset, __global storage_t(X)* y, ulong y_offset,
                               linear_attention_t p, float scale)
{
    const ulong item = get_global_id(0);
    if (item >= (ulong)p.batch * p.kv_heads * p.value_size)
        return;
    const uint column = (uint)(item % p.value_size), group = p.heads / p.kv_heads;
    const ulong pair = item / p.value_size, sample = pair / p.kv_heads;
    const uint head = (uint)(pair % p.kv_heads);
    __global float* s = state + state_offset + pair * p.key_size * p.value_size + column;
    for (uint t = 0; t < p.steps; ++t) {
        const ulong step = sample * p.steps + t;
        const ulong keys = key_offset + (step * p.kv_heads + head) * p.key_size;
        float v = load(X, value, value_offset + (step * p.kv_heads + head) * p.value_size + column);
        float recalled = 0;
        if (p.decay_size || p.beta_heads)
            for (uint d = 0; d < p.key_size; ++d) {
                float entry = s[(ulong)d * p.value_size];
                if (p.decay_size) {
                    const ulong at =
                        p.decay_size == 1 ? step * p.kv_heads + head : (step * p.kv_heads + head) * p.key_size + d;
                    entry *= exp(load(X, decay, decay_offset + at));
                    s[(ulong)d * p.value_size] = entry;
                }
                recalled += entry * load(X, key, keys + d);
            }
        if (p.beta_heads)
            v = load(X, beta, beta_offset + step * p.beta_heads + (p.beta_heads == 1 ? 0 : head)) * (v - recalled);
        for (uint d = 0; d < p.key_size; ++d)
            s[(ulong)d * p.value_size] += load(X, key, keys + d) * v;
        for (uint g = 0; g < group; ++g) {
            const ulong asks = step * p.heads + head * group + g;
            float sum = 0;
            for (uint d = 0; d < p.key_size; ++d)
                sum += load(X, query, query_offset + asks * p.key_size + d) * s[(ulong)d * p.value_size];
            store(X, y, y_offset + asks * p.value_size + column, scale * sum);
        }
    }
}
