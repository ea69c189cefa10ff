// What the decoders of com.microsoft's searches share: matrices of tokens, and the subgraphs that they run.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/decoders.hpp"

namespace clprim::onnx {

using Values = std::vector<Value>;

struct TokenMatrix {
    std::int64_t rows = 0, columns = 0;
    std::vector<Token> elements;

    static TokenMatrix of(const Call& call, std::size_t input);
    static TokenMatrix column(std::vector<Token> elements);
    std::span<Token> row(std::int64_t i);
    // Every row `times` times.
    TokenMatrix repeated(std::int64_t times);
    Value value(ElementType type = ElementType::int32) const;
};

const Graph& subgraph(const Call& call, const char* name);
// Of a subgraph, "" where it has no such input.
std::string_view input_name(const Graph& graph, std::size_t i);
bool has_input(const Graph& graph, std::string_view name);
// Outputs behind the logits.
std::size_t memories(const Graph& graph);

class SubgraphDecoder : public Decoder {
public:
    SubgraphDecoder(Call& call, const Prompt& prompt) : call_(call), prompt_(prompt), op_(call) {}

protected:
    std::int64_t rows() const { return prompt_.batch * prompt_.beams; }
    // Of the last position.
    TokenScores scores_of(const Value& logits) const;
    // Rows of `axis` as the sequences took each other's places.
    Value moved(const Value& past, std::int64_t axis, std::span<const std::int64_t> parents) const;
    // What subgraphs with one buffer for past and present ask for beside it. Beams have taken each other's places in
    // it, so all find themselves where they are.
    Value extra(std::string_view name, std::int64_t past_length) const;

    Call& call_;
    const Prompt prompt_;
    const Compose op_;
};

// A decoder like GPT-2, perhaps with one for the first step.
std::unique_ptr<Decoder> gpt_decoder(Call& call, const Prompt& prompt);
// An encoder with a decoder, like T5 or Whisper.
std::unique_ptr<Decoder> encoder_decoder(Call& call, const Prompt& prompt);

}  // namespace clprim::onnx
