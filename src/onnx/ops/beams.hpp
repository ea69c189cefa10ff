// The bookkeeping of a beam search: which beams go on, and which sequences are the best that have ended.
#pragma once

#include "onnx/ops/next_token.hpp"

namespace clprim::onnx {

struct BeamOptions {
    std::size_t beams = 1, returned = 1;
    float length_penalty = 1;
    bool early_stopping = false;
    Token eos = 0, pad = 0;
};

class Beams {
public:
    Beams(const BeamOptions& options, std::size_t batch);

    // One step for all samples. `scores` are those of next tokens, those of their beams added.
    void step(TokenScores& scores, std::span<const Sequence> sequences);
    // Sequences that have not ended end now.
    void finish(std::span<const Sequence> sequences);

    bool done() const;
    const std::vector<float>& scores() const { return scores_; }            // [batch beams], of the beams that go on
    const std::vector<Token>& tokens() const { return tokens_; }
    const std::vector<std::int64_t>& parents() const { return parents_; }   // rows of the step before

    struct Hypothesis {
        Sequence sequence;
        float score = 0;
        std::size_t step = 0, row = 0;           // the step that ended it (from 0), which row it was ahead of that
    };
    // The best of a sample, at most as many as are returned, best first.
    std::span<const Hypothesis> best(std::size_t sample) const;

private:
    void add(std::size_t sample, std::span<const Sequence> sequences, std::size_t row, float sum);
    void step_sample(std::size_t sample, TokenScores& scores, std::span<const Sequence> sequences);

    BeamOptions options_;
    std::vector<std::vector<Hypothesis>> ended_;      // by sample, best first, at most as many as beams
    std::vector<bool> done_;
    std::vector<float> scores_;
    std::vector<Token> tokens_;
    std::vector<std::int64_t> parents_;
    std::size_t step_ = 0;                            // how many there were
};

}  // namespace clprim::onnx
