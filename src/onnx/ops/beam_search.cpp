// com.microsoft's beam searches for text: BeamSearch, and WhisperBeamSearch, which hears.
#include <algorithm>
#include <cmath>
#include <optional>

#include "onnx/ops/beams.hpp"
#include "onnx/ops/cross_products.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/search_inputs.hpp"

namespace clprim::onnx {

namespace {

constexpr std::int64_t most_beams = 128;

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

// extra_decoding_ids, input 13 of WhisperBeamSearch.
ForcedTokens forced_tokens(const Call& call, std::int64_t batch, std::int64_t vocabulary)
{
    constexpr std::size_t at = 13;
    if (!call.has(at))
        return {};
    const Dims& shape = call.shape(at);
    call.check(shape.size() == 2 && shape[0] == batch, "extra_decoding_ids has shape ", to_string(shape),
               ", expected [", batch, ", length]");
    ForcedTokens forced{call.ints(at), shape[1]};
    for (const std::int64_t token : forced.tokens)
        call.check(token < vocabulary, "extra_decoding_ids has token ", token, " of ", vocabulary);
    return forced;
}

void beam_search(Call& call)
{
    constexpr Places at{6, 7, 8, 9, 10};
    Prompt prompt = prompt_of(call, at);
    prompt.beams = integer_or(call, 3, 1);
    TokenRules rules = rules_of(call, at, prompt);
    call.check(prompt.audio || !call.has(10), "decoder_input_ids is not supported");
    const bool whisper = call.node().op_type == "WhisperBeamSearch";
    if (whisper) {
        add_whisper(call, rules);
        prompt.crossed = call.integer_attribute("decoder_output_cross_qk", 0) != 0;
        call.check(prompt.crossed || !call.wants(3), "the output cross_qk needs decoder_output_cross_qk to be 1");
    } else {
        call.check(integer_or(call, 11, 0) == 0, "logits_processor is not supported");
    }
    const BeamOptions options = beam_options(call, prompt, rules.eos);
    const auto decoder = decoder_of(call, prompt);
    auto sequences = decoder->beginnings();
    check_length(call, prompt, sequences[0]);
    Beams beams(options, static_cast<std::size_t>(prompt.batch));
    std::vector<float> history;
    TokenScores scores = decoder->first();
    check_rules(call, rules, scores.vocabulary, prompt.batch);
    ForcedTokens forced;
    std::optional<CrossProducts> crossed;
    if (whisper) {
        forced = forced_tokens(call, prompt.batch, scores.vocabulary);
        if (call.wants(3))
            crossed.emplace(call, 12, decoder->cross_sizes());
        if (call.wants(4))
            put_probabilities(call, scores, call.integer_attribute("no_speech_token_id", -1), prompt.batch);
    }
    const std::int64_t begun = static_cast<std::int64_t>(sequences[0].size()), vocabulary = scores.vocabulary;
    for (std::int64_t step = 0;; ++step) {
        log_softmax_rows(scores);
        rules.apply(scores, sequences, options.beams, step == 0);
        forced.apply(scores, options.beams, step);
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
        if (crossed)
            crossed->follow(beams.parents());
        if (beams.done() || static_cast<std::int64_t>(sequences[0].size()) >= prompt.most)
            break;
        scores = decoder->next(sequences, beams.parents());
        if (crossed)
            crossed->add(call, decoder->crossed());
    }
    beams.finish(sequences);
    const auto returned = static_cast<std::int64_t>(options.returned);
    put_best(call, beams, prompt, returned);
    if (crossed)
        call.output(3, crossed->of_best(call, beams, prompt.batch, returned));
    if (!call.wants(2))
        return;
    Value all = Value::zeros(ElementType::float32, {prompt.most - begun, prompt.batch, prompt.beams, vocabulary});
    std::ranges::copy(history, all.mutable_host<float>().begin());
    call.output(2, all);
}

const OperatorRow beam_search_rows[] = {
    {"BeamSearch", 1, beam_search, nullptr, microsoft},
    {"WhisperBeamSearch", 1, beam_search, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> beam_search_operators() { return beam_search_rows; }

}  // namespace clprim::onnx
