// Rules of com.microsoft's searches: how the scores of next tokens follow from what a model computes, and which
// tokens they allow.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

using Token = std::int32_t;
using Sequence = std::vector<Token>;

// Scores of all tokens for each sequence, row-major.
struct TokenScores {
    std::vector<float> numbers;
    std::int64_t vocabulary = 0;

    std::span<float> row(std::size_t i)
    {
        return std::span(numbers).subspan(i * static_cast<std::size_t>(vocabulary),
                                          static_cast<std::size_t>(vocabulary));
    }
    std::size_t rows() const { return vocabulary ? numbers.size() / static_cast<std::size_t>(vocabulary) : 0; }
};

// How Whisper's tokens may follow each other: text between pairs of times, which do not decrease, from `first` on.
struct Timestamps {
    Token first = 0, eos = 0, start = -1, translate = -1, transcribe = -1, start_of_lm = -1, no_timestamps = -1;

    void apply(std::span<float> row, const Sequence& sequence) const;
};

struct TokenRules {
    float repetition_penalty = 1, temperature = 1, presence_penalty = 0;
    std::int64_t no_repeat_ngram_size = 0, min_length = 0;
    Token eos = 0;
    std::vector<std::int64_t> allowed;          // 0 for tokens that never come; empty: all do
    std::vector<std::int64_t> first_allowed;    // the same for the first step, [batch, vocabulary]
    std::vector<std::int64_t> present;          // [batch, vocabulary]
    std::optional<Timestamps> timestamps;

    // Of `sequences`, of which `beams` in a row belong to one sample.
    void apply(TokenScores& scores, std::span<const Sequence> sequences, std::size_t beams, bool first) const;
};

// Tokens that come first, whatever their scores: of each sample those ahead of its first negative one.
struct ForcedTokens {
    std::vector<std::int64_t> tokens;           // [batch, steps]
    std::int64_t steps = 0;

    // Of `scores`, of which `beams` in a row belong to one sample.
    void apply(TokenScores& scores, std::size_t beams, std::int64_t step) const;
};

// Logarithms of the probabilities of each row.
void log_softmax_rows(TokenScores& scores);

// Which tokens a draw may choose.
struct Nucleus {
    float top_p = 0, filter_value = -1e20F;
    std::int64_t min_tokens_to_keep = 0;
    bool custom = false;

    // Gives the scores of tokens outside the least likely set that has `top_p` of the probability `filter_value`.
    void filter(std::span<float> scores) const;
};

// A token by its probability. The generator is the one that ONNX Runtime has where its C++ library is GNU's.
Token drawn(std::span<const float> scores, std::minstd_rand0& generator);

}  // namespace clprim::onnx
