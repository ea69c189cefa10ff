// Inputs and attributes that com.microsoft's searches for text share.
#pragma once

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/decoders.hpp"
#include "onnx/ops/next_token.hpp"

namespace clprim::onnx {

// Where an operator has what all have, and what those have that may begin with sounds.
struct Places {
    std::size_t repetition_penalty, allowed, first_allowed, mask, beginning = none;
};

Token token_attribute(const Call& call, const char* name);
std::int64_t integer_or(const Call& call, std::size_t i, std::int64_t otherwise);
float number_or(const Call& call, std::size_t i, float otherwise);

Prompt prompt_of(const Call& call, const Places& at);
TokenRules rules_of(const Call& call, const Places& at, const Prompt& prompt);
// Throws where masks do not fit the tokens that there are, or sequences have no room to begin.
void check_rules(const Call& call, const TokenRules& rules, std::int64_t vocabulary, std::int64_t batch);
void check_length(const Call& call, const Prompt& prompt, const Sequence& beginning);

}  // namespace clprim::onnx
