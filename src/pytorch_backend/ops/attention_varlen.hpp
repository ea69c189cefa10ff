// Attention over sequences of different lengths that lie one behind the other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <clprim/random.hpp>

namespace torch_ocl {

// Sequence b has the rows begins[b] to begins[b + 1] - 1.
struct VarlenProblem {
    at::Tensor query, key, value;   // [rows, heads, size]
    std::vector<std::int64_t> query_begins, key_begins;
    double scale = 1;
    std::int64_t left = -1, right = -1;   // keys that are seen before and after a query's own; -1: all
    bool bottom_right = false;   // the last query's own key is the last, not the first's first
    double dropout = 0;
    clprim::PhiloxState state{};   // of the first sequence; the next ones take the next offsets
};

// y [rows, heads, size of values]; logsumexp [heads, rows], which backward needs, where it is asked for.
struct VarlenResult {
    at::Tensor y, logsumexp;
};
VarlenResult varlen_attention(const VarlenProblem& problem, bool with_logsumexp);

struct VarlenGradients {
    at::Tensor query, key, value;
};
VarlenGradients varlen_attention_backward(const VarlenProblem& problem, const VarlenResult& result,
                                          const at::Tensor& grad_y);

}  // namespace torch_ocl
