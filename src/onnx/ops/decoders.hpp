// Models of com.microsoft's searches: subgraphs that say what may come next, with what they remember.
#pragma once

#include <memory>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/next_token.hpp"

namespace clprim::onnx {

// Where a search operator has its inputs.
struct Prompt {
    std::size_t ids = 0, mask = 6;             // inputs; the mask may be absent
    std::size_t beginning = none;              // decoder_input_ids, which may be absent
    bool audio = false;                        // input `ids` has features of sounds
    std::int64_t batch = 0, beams = 1, most = 0;
    Token pad = 0, start = 0;
    bool crossed = false;                      // the decoder gives the products of its cross attention, too
    std::int64_t vocabulary = 0;               // of which scores are asked; all that the model has where not positive
};

struct CrossSizes {
    std::int64_t layers = 0, heads = 0, keys = 0;
};

class Decoder {
public:
    virtual ~Decoder() = default;
    // What sequences begin with.
    virtual std::vector<Sequence> beginnings() const = 0;
    // Logits of the first token for each sequence.
    virtual TokenScores first() = 0;
    // Logits after sequence i has become that of row parents[i] and one token more, its last.
    virtual TokenScores next(std::span<const Sequence> sequences, std::span<const std::int64_t> parents) = 0;
    // Products of queries and keys in the cross attention of the last next(), [sequences, heads, length, keys] by
    // layer, where Prompt::crossed asks for them; their sizes are known after first().
    virtual std::span<const Value> crossed() const { return {}; }
    virtual CrossSizes cross_sizes() const { return {}; }
};

// Like GPT-2 (one subgraph, and perhaps one for the first step), like T5 (an encoder, too) or like Whisper (an encoder
// of sounds), by `model_type`.
std::unique_ptr<Decoder> decoder_of(Call& call, const Prompt& prompt);

}  // namespace clprim::onnx
