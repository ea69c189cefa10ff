// Operators of nets for sequences: what transformers and recurrent networks are made of. As in operators.hpp.
#pragma once

#include <clprim/activation.hpp>
#include <clprim/operator.hpp>

CLPRIM_API_BEGIN
namespace clprim {

#define CLPRIM_CONFIG(Name)                                                                                            \
    static Name from_json(const Options& options);                                                                     \
    Options to_json() const

// "Linear": y = x W^T + b along the last axis of x [..., inputs], then the activation. Parameters: weight
// [outputs, inputs], bias.
struct LinearConfig {
    std::int64_t outputs = 0;
    bool bias = true;
    Activation activation = Activation::none;
    CLPRIM_CONFIG(LinearConfig);
};

// "MatMul" of two inputs [..., M, K] and [..., K, N] with the same leading axes, either transposed first; times scale.
struct MatMulConfig {
    bool transpose_a = false, transpose_b = false;
    double scale = 1;
    CLPRIM_CONFIG(MatMulConfig);
};

// "LayerNorm" along the last axis; rms: by the root mean square, without mean and bias. Parameters: weight, bias.
struct LayerNormConfig {
    double eps = 1e-5;
    bool rms = false, bias = true;
    CLPRIM_CONFIG(LayerNormConfig);
};

// "Embedding": rows of the parameter [count, size] by integers of any shape, which an axis of `size` is added to.
struct EmbeddingConfig {
    std::int64_t count = 0, size = 0;
    CLPRIM_CONFIG(EmbeddingConfig);
};

// "Attention" of query [N, L, E], key [N, S, E] and value [N, S, E'], cut into heads, and of a mask
// [N, 1 or heads, L, S] that is added to the scores, if there is a fourth input; it has no gradient. scale 0: 1 / sqrt
// of the size of a head.
struct AttentionConfig {
    std::int64_t heads = 1;
    bool causal = false;
    double scale = 0, dropout = 0;           // dropout: of probabilities, in train mode
    CLPRIM_CONFIG(AttentionConfig);
};

// "Permute": the axes in another order.
struct PermuteConfig {
    Dims dims{};
    CLPRIM_CONFIG(PermuteConfig);
};

// "LSTM" and "GRU": x [N, T, inputs] to [N, T, hidden], one layer in one direction from zero states, as
// torch.nn.LSTM and torch.nn.GRU with batch_first. Parameters: weight_ih [G hidden, inputs], weight_hh
// [G hidden, hidden], bias_ih, bias_hh.
struct LSTMConfig {
    std::int64_t hidden = 0;
    CLPRIM_CONFIG(LSTMConfig);
};
struct GRUConfig {
    std::int64_t hidden = 0;
    CLPRIM_CONFIG(GRUConfig);
};

#undef CLPRIM_CONFIG

std::unique_ptr<Operator> make_operator(const LinearConfig& config);
std::unique_ptr<Operator> make_operator(const MatMulConfig& config);
std::unique_ptr<Operator> make_operator(const LayerNormConfig& config);
std::unique_ptr<Operator> make_operator(const EmbeddingConfig& config);
std::unique_ptr<Operator> make_operator(const AttentionConfig& config);
std::unique_ptr<Operator> make_operator(const PermuteConfig& config);
std::unique_ptr<Operator> make_operator(const LSTMConfig& config);
std::unique_ptr<Operator> make_operator(const GRUConfig& config);

}  // namespace clprim
CLPRIM_API_END
