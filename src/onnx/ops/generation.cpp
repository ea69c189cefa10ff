// com.microsoft's searches that follow one sequence for each sample: GreedySearch, Sampling. The models are subgraphs
// and run on the device; what is done with the scores of one token at a time, the host does.
#include <algorithm>

#include "onnx/ops/families.hpp"
#include "onnx/ops/search_inputs.hpp"

namespace clprim::onnx {

namespace {

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

const OperatorRow generation_rows[] = {
    {"GreedySearch", 1, greedy_search, nullptr, microsoft},
    {"Sampling", 1, sampling, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> generation_operators() { return generation_rows; }

}  // namespace clprim::onnx
