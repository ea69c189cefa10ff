// The two products of attention as exporters write them, for fuse_attention.cpp.
#pragma once

#include <optional>

#include "onnx/rewriter.hpp"

namespace clprim::onnx {

// An operator of ONNX's own with so many inputs, all given, and one output.
bool is_plain_node(const Node* node, std::string_view op_type, std::size_t inputs);
// Cast to a floating-point type.
bool is_conversion_of_floats(const Node* node);

// The last axes in the order that attention has them: [..., rows, columns]; negative ones are counted from the end.
// Those that are not named stay in front; empty: as they are.
using TrailingAxes = std::vector<std::int64_t>;

struct ScoreProduct {
    const Node* node = nullptr;
    std::size_t q = 0;                   // which input is the queries; the other one is the keys
    TrailingAxes q_axes, k_axes;         // to [..., L, E] and [..., E, S]
    float alpha = 1;
};
std::optional<ScoreProduct> score_product(const Node& node);

// What stands behind the softmax: conversions, a Where that makes NaN 0, a transposition, the product with the values.
struct Ending {
    std::vector<const Node*> nodes;
    int v = absent;
    TrailingAxes v_axes, y_axes;         // to [..., S, Ev], and of the result to [..., L, Ev]
};
std::optional<Ending> attention_ending(Rewriter& rewriter, const Node& softmax);

}  // namespace clprim::onnx
