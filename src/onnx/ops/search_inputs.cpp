#include "onnx/ops/search_inputs.hpp"

#include <limits>

namespace clprim::onnx {

namespace {

constexpr std::int64_t longest = 4096;

}  // namespace

Token token_attribute(const Call& call, const char* name)
{
    const auto token = call.attribute<std::int64_t>(name);
    call.check(token >= 0 && token <= std::numeric_limits<Token>::max(), name, " is ", token);
    return static_cast<Token>(token);
}

std::int64_t integer_or(const Call& call, std::size_t i, std::int64_t otherwise)
{
    return call.has(i) ? call.integer(i) : otherwise;
}

float number_or(const Call& call, std::size_t i, float otherwise)
{
    return call.has(i) ? static_cast<float>(call.number(i)) : otherwise;
}

Prompt prompt_of(const Call& call, const Places& at)
{
    Prompt prompt;
    prompt.mask = at.mask;
    prompt.audio = at.beginning != none && call.integer_attribute("model_type", 0) == 2;
    if (prompt.audio)
        prompt.beginning = at.beginning;
    call.check(call.shape(0).size() == (prompt.audio ? 3 : 2) && call.shape(0).product() > 0, "input_ids has shape ",
               to_string(call.shape(0)), ", expected [batch, ", prompt.audio ? "features, " : "", "length]");
    prompt.batch = call.shape(0)[0];
    prompt.most = integer_or(call, 1, longest);
    call.check(prompt.most <= longest, "max_length is ", prompt.most, ", more than ", longest);
    prompt.pad = token_attribute(call, "pad_token_id");
    prompt.start = static_cast<Token>(call.integer_attribute("decoder_start_token_id", -1));
    prompt.vocabulary = call.integer_attribute("vocab_size", -1);
    return prompt;
}

TokenRules rules_of(const Call& call, const Places& at, const Prompt& prompt)
{
    TokenRules rules;
    rules.eos = token_attribute(call, "eos_token_id");
    rules.min_length = integer_or(call, 2, 0);
    call.check(rules.min_length < prompt.most, "min_length is ", rules.min_length, ", max_length ", prompt.most);
    rules.repetition_penalty = number_or(call, at.repetition_penalty, 1);
    call.check(rules.repetition_penalty > 0, "repetition_penalty is ", rules.repetition_penalty);
    rules.no_repeat_ngram_size = call.integer_attribute("no_repeat_ngram_size", 0);
    if (call.has(at.allowed))
        rules.allowed = call.ints(at.allowed);
    if (call.has(at.first_allowed))
        rules.first_allowed = call.ints(at.first_allowed);
    return rules;
}

void check_rules(const Call& call, const TokenRules& rules, std::int64_t vocabulary, std::int64_t batch)
{
    const auto fits = [](const auto& mask, std::int64_t count) {
        return mask.empty() || static_cast<std::int64_t>(mask.size()) == count;
    };
    call.check(fits(rules.allowed, vocabulary), "vocab_mask has ", rules.allowed.size(), " elements for ", vocabulary,
               " tokens");
    call.check(fits(rules.first_allowed, batch * vocabulary), "prefix_vocab_mask has ", rules.first_allowed.size(),
               " elements for ", batch, " samples and ", vocabulary, " tokens");
    call.check(fits(rules.present, batch * vocabulary), "presence_mask has ", rules.present.size(), " elements for ",
               batch, " samples and ", vocabulary, " tokens");
}

void check_length(const Call& call, const Prompt& prompt, const Sequence& beginning)
{
    call.check(prompt.most > static_cast<std::int64_t>(beginning.size()), "max_length is ", prompt.most,
               ", sequences begin with ", beginning.size(), " tokens");
}

}  // namespace clprim::onnx
