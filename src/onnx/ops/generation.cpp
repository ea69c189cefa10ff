// com.microsoft's searches for text: GreedySearch, Sampling, BeamSearch, WhisperBeamSearch. The models are subgraphs
// and run on the device; what is done with the scores of one token at a time, the host does.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/ops/beams.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/decoders.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

constexpr std::int64_t longest = 4096, most_beams = 128;

// Where an operator has what all have, and what those have that may begin with sounds.
struct Places {
    std::size_t repetition_penalty, allowed, first_allowed, mask, beginning = none;
};

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

// One sequence for each sample: `choose` takes a token by its scores, a row at a time.
template <class Choose>
void one_each(Call& call, const Places& at, TokenRules rules, const Choose& choose)
{
    const Prompt prompt = prompt_of(call, at);
    const auto decoder = decoder_of(call, prompt);
    auto sequences = decoder->beginnings();
    check_length(call, prompt, sequences[0]);
    std::vector<std::int64_t> stay;
    for (std::size_t i = 0; i < sequences.size(); ++i)
        stay.push_back(static_cast<std::int64_t>(i));
    std::vector<bool> ended(sequences.size());
    TokenScores scores = decoder->first();
    check_rules(call, rules, scores.vocabulary, prompt.batch);
    for (bool first = true;; first = false) {
        rules.apply(scores, sequences, 1, first);
        for (std::size_t i = 0; i < sequences.size(); ++i) {
            const Token token = choose(scores.row(i));
            ended[i] = ended[i] || token == rules.eos;
            sequences[i].push_back(ended[i] ? prompt.pad : token);
        }
        if (static_cast<std::int64_t>(sequences[0].size()) >= prompt.most ||
            std::ranges::all_of(ended, [](bool end) { return end; }))
            break;
        scores = decoder->next(sequences, stay);
    }
    Value result = Value::zeros(ElementType::int32, {prompt.batch, prompt.most});
    const auto target = result.mutable_host<Token>();
    std::ranges::fill(target, prompt.pad);
    for (std::size_t i = 0; i < sequences.size(); ++i)
        std::ranges::copy(sequences[i], target.begin() + static_cast<std::ptrdiff_t>(i) * prompt.most);
    call.output(0, result);
    if (!call.wants(1))
        return;
    Value filtered = Value::zeros(ElementType::float32, {prompt.batch, scores.vocabulary});
    std::ranges::copy(scores.numbers, filtered.mutable_host<float>().begin());
    call.output(1, filtered);
}

void greedy_search(Call& call)
{
    constexpr Places at{3, 4, 5, 6};
    one_each(call, at, rules_of(call, at, prompt_of(call, at)),
             [](std::span<float> row) { return static_cast<Token>(std::ranges::max_element(row) - row.begin()); });
}

void sampling(Call& call)
{
    constexpr Places at{3, 4, 5, 6};
    TokenRules rules = rules_of(call, at, prompt_of(call, at));
    rules.temperature = call.float_attribute("temperature", 1);
    call.check(rules.temperature > 0, "temperature is ", rules.temperature);
    rules.presence_penalty = call.float_attribute("presence_penalty", 0);
    if (call.has(7))
        rules.present = call.ints(7);
    const Nucleus nucleus{call.float_attribute("top_p", 0), call.float_attribute("filter_value", -1e20F),
                          call.integer_attribute("min_tokens_to_keep", 0), call.integer_attribute("custom", 0) != 0};
    std::minstd_rand0 generator(call.has(8) ? static_cast<std::uint32_t>(call.integer(8)) : std::random_device{}());
    one_each(call, at, rules, [&](std::span<float> row) {
        nucleus.filter(row);
        return drawn(row, generator);
    });
}

// ---- beams ----

void put_best(Call& call, const Beams& beams, const Prompt& prompt, std::int64_t returned)
{
    Value sequences = Value::zeros(ElementType::int32, {prompt.batch, returned, prompt.most});
    Value scores = Value::zeros(ElementType::float32, {prompt.batch, returned});
    const auto tokens = sequences.mutable_host<Token>();
    std::ranges::fill(tokens, prompt.pad);
    for (std::int64_t b = 0; b < prompt.batch; ++b) {
        std::int64_t row = b * returned;
        for (const Beams::Hypothesis& found : beams.best(static_cast<std::size_t>(b))) {
            std::ranges::copy(found.sequence, tokens.begin() + row * prompt.most);
            scores.mutable_host<float>()[static_cast<std::size_t>(row++)] = found.score;
        }
    }
    call.output(0, sequences);
    call.output(1, scores);
}

BeamOptions beam_options(const Call& call, const Prompt& prompt, Token eos)
{
    const std::int64_t returned = integer_or(call, 4, 1);
    call.check(prompt.beams >= 1 && prompt.beams <= most_beams, "num_beams is ", prompt.beams, ", expected 1 to ",
               most_beams);
    call.check(returned >= 1 && returned <= prompt.beams, "num_return_sequences is ", returned, " of ", prompt.beams,
               " beams");
    return {static_cast<std::size_t>(prompt.beams), static_cast<std::size_t>(returned), number_or(call, 5, 1),
            call.integer_attribute("early_stopping", 0) == 1, eos, prompt.pad};
}

// Probabilities of one token beside all, a row of logits for each sample.
void put_probabilities(Call& call, TokenScores scores, std::int64_t token, std::int64_t batch)
{
    call.check(token >= 0 && token < scores.vocabulary, "no_speech_token_id is ", token, " of ", scores.vocabulary,
               " tokens");
    log_softmax_rows(scores);
    Value result = Value::zeros(ElementType::float32, {batch});
    const auto beams = scores.rows() / static_cast<std::size_t>(batch);
    for (std::size_t i = 0; float& probability : result.mutable_host<float>())
        probability = std::exp(scores.row(beams * i++)[static_cast<std::size_t>(token)]);
    call.output(4, result);
}

// What WhisperBeamSearch has beside BeamSearch.
void add_whisper(const Call& call, TokenRules& rules)
{
    call.check(call.integer_attribute("model_type", 0) == 2, "model_type must be 2");
    call.check(call.integer_attribute("decoder_output_cross_qk", 0) == 0 && !call.wants(3),
               "cross_qk is not supported");
    call.check(!call.has(13), "extra_decoding_ids is not supported");
    rules.temperature = number_or(call, 14, 1);
    call.check(rules.temperature > 0, "temperature is ", rules.temperature);
    const std::int64_t processor = integer_or(call, 11, 0);
    call.check(processor == 0 || processor == 1, "logits_processor is ", processor, ", expected 0 or 1 (timestamps)");
    if (!processor)
        return;
    const auto token = [&](const char* name) { return static_cast<Token>(call.integer_attribute(name, -1)); };
    rules.timestamps = Timestamps{token_attribute(call, "beginning_timestamp_token_id"), rules.eos,
                                  token("decoder_start_token_id"), token("translate_token_id"),
                                  token("transcribe_token_id"), token("start_of_lm_token_id"),
                                  token("no_timestamps_token_id")};
}

void beam_search(Call& call)
{
    constexpr Places at{6, 7, 8, 9, 10};
    Prompt prompt = prompt_of(call, at);
    prompt.beams = integer_or(call, 3, 1);
    TokenRules rules = rules_of(call, at, prompt);
    call.check(prompt.audio || !call.has(10), "decoder_input_ids is not supported");
    const bool whisper = call.node().op_type == "WhisperBeamSearch";
    if (whisper)
        add_whisper(call, rules);
    else
        call.check(integer_or(call, 11, 0) == 0, "logits_processor is not supported");
    const BeamOptions options = beam_options(call, prompt, rules.eos);
    const auto decoder = decoder_of(call, prompt);
    auto sequences = decoder->beginnings();
    check_length(call, prompt, sequences[0]);
    Beams beams(options, static_cast<std::size_t>(prompt.batch));
    std::vector<float> history;
    TokenScores scores = decoder->first();
    check_rules(call, rules, scores.vocabulary, prompt.batch);
    if (whisper && call.wants(4))
        put_probabilities(call, scores, call.integer_attribute("no_speech_token_id", -1), prompt.batch);
    const std::int64_t begun = static_cast<std::int64_t>(sequences[0].size()), vocabulary = scores.vocabulary;
    for (bool first = true;; first = false) {
        log_softmax_rows(scores);
        rules.apply(scores, sequences, options.beams, first);
        for (std::size_t i = 0; i < scores.rows(); ++i)
            for (float& score : scores.row(i))
                score += beams.scores()[i];
        if (call.wants(2))
            history.insert(history.end(), scores.numbers.begin(), scores.numbers.end());
        beams.step(scores, sequences);
        std::vector<Sequence> longer;
        for (std::size_t i = 0; i < sequences.size(); ++i) {
            longer.push_back(sequences[static_cast<std::size_t>(beams.parents()[i])]);
            longer.back().push_back(beams.tokens()[i]);
        }
        sequences = std::move(longer);
        if (beams.done() || static_cast<std::int64_t>(sequences[0].size()) >= prompt.most)
            break;
        scores = decoder->next(sequences, beams.parents());
    }
    beams.finish(sequences);
    put_best(call, beams, prompt, static_cast<std::int64_t>(options.returned));
    if (!call.wants(2))
        return;
    Value all = Value::zeros(ElementType::float32, {prompt.most - begun, prompt.batch, prompt.beams, vocabulary});
    std::ranges::copy(history, all.mutable_host<float>().begin());
    call.output(2, all);
}

const OperatorRow generation_rows[] = {
    {"GreedySearch", 1, greedy_search, nullptr, microsoft},
    {"Sampling", 1, sampling, nullptr, microsoft},
    {"BeamSearch", 1, beam_search, nullptr, microsoft},
    {"WhisperBeamSearch", 1, beam_search, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> generation_operators() { return generation_rows; }

}  // namespace clprim::onnx
