// Linear attention: a recurrence over a state matrix instead of scores against all keys.
//
// For each batch and key/value head, with the state S [dk, dv] and, per step t, the key k, value v and query q:
//     S = exp(g) S                      with decay (g per head or per row of S)
//     v = beta (v - S^T k)              with beta ("delta rule")
//     S = S + k v^T,   o = scale S^T q
// Query heads h share key/value head h / (heads / kv_heads). Katharopoulos et al. 2020; Yang et al. 2024.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// query [B, T, heads dk], key [B, T, kv_heads dk], value [B, T, kv_heads dv], decay [B, T, kv_heads (dk)] and beta
// [B, T, kv_heads or 1], optional, y [B, T, heads dv]: contiguous, of one floating-point dtype. state
// [B, kv_heads, dk, dv] is float32, contiguous, and carries from before the first step to after the last. Throws
// InvalidArgument.
struct LinearAttention {
    Tensor query, key, value, decay, beta, state, y;
    std::int64_t heads = 1, kv_heads = 1;
    double scale = 1;
};
void linear_attention(Queue& queue, const LinearAttention& problem);

}  // namespace clprim
CLPRIM_API_END
