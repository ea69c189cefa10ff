// The two products of attention as exporters write them, for fuse_attention.cpp.
#pragma once

#include <array>
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

// What stands behind the softmax: conversions, a Where that makes NaN 0, a Reshape or a transposition, the product with
// the values.
struct Ending {
    std::vector<const Node*> nodes;
    const Node* reshape = nullptr;
    int v = absent;
    TrailingAxes v_axes, y_axes;         // to [..., S, Ev], and of the result to [..., L, Ev]
};
std::optional<Ending> attention_ending(Rewriter& rewriter, const Node& softmax);

// Heads of keys or values that groups of queries share, as exporters repeat them: Expand, then one or two Reshapes
// that join the axes of heads and repetitions, perhaps a Transpose and another Reshape. Without nodes there is no
// repetition.
struct Repetition {
    std::vector<const Node*> nodes;      // behind the Expand, in order
    int expanded = absent;               // what it writes
    std::array<int, 3> shapes{absent, absent, absent};   // of the Reshapes, the last one behind the Transpose
    std::vector<std::int64_t> turned;    // the permutation of the Transpose; empty without one
};
// Of what `reader` alone reads as `slot`.
Repetition repetition_of(Rewriter& rewriter, int slot, const Node& reader);

// The node that writes what only `reader` reads, and that once.
const Node* writer_for(Rewriter& rewriter, int slot, const Node& reader);

}  // namespace clprim::onnx
