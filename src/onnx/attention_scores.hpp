// What stands between the product of queries and keys and the softmax, for fuse_attention.cpp.
#pragma once

#include <optional>
#include <vector>

#include "onnx/attention_products.hpp"

namespace clprim::onnx {

// Added to a score it leaves nothing of it, so that rows without any key stay rows of equal numbers.
inline constexpr float drowns_scores = -1e30f;
// Numbers with at most so many axes lend scores none, which have three or more.
inline constexpr std::size_t axes_of_scores = 2;

// One of the nodes; `scores` is the input they come by.
struct ScoreStep {
    enum class Kind { scale, conversion, mask, cap, shape } kind;
    const Node* node;
    std::size_t scores;
};

struct Scores {
    std::optional<ScoreProduct> product;
    std::vector<ScoreStep> steps;    // from the softmax to the product
    float scale = 1;
    float softcap = 0;               // what a tanh of them is multiplied by; 0 without one
    std::vector<const Node*> shapes; // the Reshapes, from the product to the softmax
    // The masks that are added to scores as the product has them, and behind the first Reshape; innermost first.
    std::vector<ScoreStep> inner_masks() const { return masks(false); }
    std::vector<ScoreStep> outer_masks() const { return masks(true); }

private:
    std::vector<ScoreStep> masks(bool outer) const;
};

// Those that a softmax along an axis reads, if they are attention's. Reshapes come in pairs, of which the second is the
// last but for conversions; it may stand behind the softmax, which then has to be along the last axis.
std::optional<Scores> attention_scores(Rewriter& rewriter, const Node& softmax, const Ending& ending,
                                       std::int64_t axis);

// A constant of float32 with one element and at most so many axes.
std::optional<float> constant_float(const Rewriter& rewriter, int slot, std::size_t most_axes);
// By what a node multiplies its other input; `other` is that one's place.
std::optional<float> constant_factor(const Rewriter& rewriter, const Node* node, std::size_t& other,
                                     std::size_t most_axes);

}  // namespace clprim::onnx
