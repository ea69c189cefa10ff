// Products of queries and keys in the cross attention of a decoder, gathered over the steps of a beam search: which
// sounds a token was found by.
#pragma once

#include "onnx/ops/beams.hpp"
#include "onnx/ops/decoders.hpp"

namespace clprim::onnx {

class CrossProducts {
public:
    // Keeps the (layer, head) that input `kept` lists, [count, 2], or all in order where it is absent.
    CrossProducts(const Call& call, std::size_t kept, const CrossSizes& sizes);

    // What the decoder gave, [sequences, heads, length, keys] by layer, of which the last position is kept.
    void add(const Call& call, std::span<const Value> layers);
    // After a step of the search sequence i goes on from row parents[i].
    void follow(std::span<const std::int64_t> parents) { parents_.emplace_back(parents.begin(), parents.end()); }

    // [samples, returned, kept, steps, keys] in float32: row i of a sequence is what the decoder had of its token i
    // that was found; 0 behind the last token that the decoder saw.
    Value of_best(const Call& call, const Beams& beams, std::int64_t samples, std::int64_t returned) const;

private:
    CrossSizes sizes_;
    std::vector<std::int64_t> kept_;                      // layer * heads + head
    std::vector<Value> steps_;                            // [sequences, kept, keys]
    std::vector<std::vector<std::int64_t>> parents_;
};

}  // namespace clprim::onnx
