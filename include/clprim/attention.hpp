// Scaled dot-product attention, forward and backward, that never stores the matrix of scores.
//
// For each batch b, query head h with key head g = h / (Hq / Hkv), query i and key j:
//     s[i, j] = scale q[i] . k[j] + mask[i, j],  -inf where a key is hidden; with a softcap c > 0 it is
//     s[i, j] = c tanh(scale q[i] . k[j] / c) + mask[i, j]
//     p[i, :] = softmax(s[i, :]),   y[i] = sum over j of  dropped(p[i, j]) v[j],   logsumexp[i] = log sum exp s[i, :]
// A query that sees no key gets y = 0, logsumexp = -inf and no gradient. Dropout sets a probability to 0 or multiplies
// it by 1 / (1 - dropout): that of (i, j) takes word j % 4 of Philox's block row * ceil(S / 4) + j / 4 at counter
// `offset`, where row = (b Hq + h) L + i, so backward makes the same numbers again.
//
// Method: blocks of queries pass over blocks of keys and correct their sums when the largest score grows (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Rabe and Staats, "Self-attention does not need O(n^2)
// memory", 2021); backward recomputes the probabilities from logsumexp (Dao et al., "FlashAttention", 2022; Dao,
// "FlashAttention-2", 2023). Every result has one owner that adds in a fixed order: two runs give the same bits.
#pragma once

#include <clprim/random.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Up to this many elements of a head (E and Ev) fast kernels keep what they need in local memory; beyond, there is only
// the reference, and products of whole matrices are the better way.
constexpr std::int64_t longest_fused_head = 256;

// query [B, Hq, L, E], key [B, Hkv, S, E], value [B, Hkv, S, Ev], with Hq a multiple of Hkv: one floating-point dtype,
// any strides; float16 and bfloat16 are computed in float32.
struct Attention {
    Tensor query, key, value;
    Tensor mask;                     // optional, broadcasts to [B, Hq, L, S]: boolean (true: the key is seen) or that
                                     // dtype (added)
    double scale = 1;
    bool causal = false;             // query i sees keys j <= i + causal_offset only
    std::int64_t causal_offset = 0;
    double dropout = 0;              // probability in [0, 1]
    PhiloxState state{};             // of dropout
    float softcap = 0;               // 0: none; forward only
};

// y [B, Hq, L, Ev] of query's dtype, any strides; logsumexp [B, Hq, L], contiguous, float32 (float64 for float64), or
// undefined. Throws InvalidArgument for shapes and dtypes that do not fit, NotSupported for float64 on a device
// without it.
void attention(Queue& queue, const Attention& problem, const Tensor& y, const Tensor& logsumexp = {});

// What backward writes, with the shapes and dtypes of the inputs and any strides; undefined tensors are not computed.
struct AttentionGradients {
    Tensor query, key, value;
};

// What forward wrote, and the gradient of y.
struct AttentionResults {
    Tensor y, logsumexp, grad_y;
};
void attention_backward(Queue& queue, const Attention& problem, const AttentionResults& results,
                        const AttentionGradients& gradients);

// One line that says what decides the speed of a problem.
std::string describe(const Attention& problem);

}  // namespace clprim
CLPRIM_API_END
