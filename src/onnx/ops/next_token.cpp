#include "onnx/ops/next_token.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace clprim::onnx {

namespace {

constexpr float never = std::numeric_limits<float>::lowest();

bool is_token(Token token, std::span<const float> row)
{
    return token >= 0 && static_cast<std::size_t>(token) < row.size();
}

void penalise_repetitions(std::span<float> row, const Sequence& sequence, float penalty)
{
    for (const Token token : std::set<Token>(sequence.begin(), sequence.end()))
        if (is_token(token, row)) {
            float& score = row[static_cast<std::size_t>(token)];
            score = score < 0 ? score * penalty : score / penalty;
        }
}

// No token that would repeat `size` tokens in a row.
void forbid_repeated(std::span<float> row, const Sequence& sequence, std::size_t size)
{
    if (size > sequence.size())
        return;
    const auto last = sequence.end() - static_cast<std::ptrdiff_t>(size - 1);
    for (auto at = sequence.begin(); sequence.end() - at >= static_cast<std::ptrdiff_t>(size); ++at)
        if (const Token next = *(at + static_cast<std::ptrdiff_t>(size - 1));
            std::equal(last, sequence.end(), at) && is_token(next, row))
            row[static_cast<std::size_t>(next)] = never;
}

void forbid_masked(std::span<float> row, std::span<const std::int64_t> allowed)
{
    for (std::size_t i = 0; i < row.size(); ++i)
        if (!allowed[i])
            row[i] = never;
}

void forbid(std::span<float> row, std::int64_t begin, std::int64_t end)
{
    const auto count = static_cast<std::int64_t>(row.size());
    for (std::int64_t i = std::clamp<std::int64_t>(begin, 0, count); i < std::min(end, count); ++i)
        row[static_cast<std::size_t>(i)] = never;
}

// The logarithm of the probability that one of several tokens comes.
float log_sum(std::span<const float> row)
{
    const float largest = row.empty() ? never : *std::ranges::max_element(row);
    if (largest == never)
        return never;
    double sum = 0;
    for (const float score : row)
        sum += std::exp(static_cast<double>(score) - largest);
    return static_cast<float>(std::log(sum)) + largest;
}

}  // namespace

void Timestamps::apply(std::span<float> row, const Sequence& sequence) const
{
    constexpr std::int64_t latest_beginning = 50, one = 1;      // a second; no overflow, whatever tokens are given
    const auto count = static_cast<std::int64_t>(row.size());
    const auto is_time = [&](Token token) { return token >= first; };
    const auto found = std::ranges::find_if(sequence, is_time);
    // Where a time has come there is text behind it; else what comes next is the first.
    const std::size_t begun = found == sequence.end() ? sequence.size()
                                                      : static_cast<std::size_t>(found - sequence.begin()) + 1;
    const bool later = sequence.size() > begun;
    for (const Token token : {no_timestamps, start_of_lm})
        forbid(row, token, token + one);
    for (const Token token : {start, translate, transcribe})
        if (later)
            forbid(row, token, token + one);
    const bool after_time = !sequence.empty() && is_time(sequence.back()),
               second = !later || is_time(sequence[sequence.size() - 2]);
    if (after_time && second)
        forbid(row, first, count);
    else if (after_time)
        forbid(row, 0, eos);
    const auto last = std::ranges::find_if(sequence.rbegin(), sequence.rend(), is_time);
    if (last != sequence.rend())
        forbid(row, first, after_time && !second ? *last : *last + one);
    if (!later)
        forbid(row, first + latest_beginning + one, count);
    const auto text = row.first(static_cast<std::size_t>(std::clamp<std::int64_t>(first, 0, count)));
    if (!text.empty() && log_sum(row.subspan(text.size())) > *std::ranges::max_element(text))
        forbid(row, 0, first);
}

void TokenRules::apply(TokenScores& scores, std::span<const Sequence> sequences, std::size_t beams, bool first) const
{
    const auto vocabulary = static_cast<std::size_t>(scores.vocabulary);
    for (std::size_t i = 0; i < scores.rows(); ++i) {
        const std::span<float> row = scores.row(i);
        const std::size_t sample = i / beams * vocabulary;
        if (repetition_penalty != 1)
            penalise_repetitions(row, sequences[i], repetition_penalty);
        if (no_repeat_ngram_size > 0)
            forbid_repeated(row, sequences[i], static_cast<std::size_t>(no_repeat_ngram_size));
        if (!allowed.empty())
            forbid_masked(row, allowed);
        if (first && !first_allowed.empty())
            forbid_masked(row, std::span(first_allowed).subspan(sample, vocabulary));
        if (static_cast<std::int64_t>(sequences[i].size()) < min_length && is_token(eos, row))
            row[static_cast<std::size_t>(eos)] = never;
        if (temperature != 1)
            for (float& score : row)
                score /= temperature;
        if (!present.empty() && presence_penalty != 0)
            for (std::size_t k = 0; k < vocabulary; ++k)
                row[k] -= static_cast<float>(present[sample + k]) * presence_penalty;
        if (timestamps)
            timestamps->apply(row, sequences[i]);
    }
}

void ForcedTokens::apply(TokenScores& scores, std::size_t beams, std::int64_t step) const
{
    if (step >= steps)
        return;
    for (std::size_t i = 0; i < scores.rows(); ++i) {
        const auto first = tokens.begin() + static_cast<std::int64_t>(i / beams) * steps;
        if (std::any_of(first, first + step + 1, [](std::int64_t token) { return token < 0; }))
            continue;
        std::ranges::fill(scores.row(i), never);
        scores.row(i)[static_cast<std::size_t>(first[step])] = 0;
    }
}

void log_softmax_rows(TokenScores& scores)
{
    for (std::size_t i = 0; i < scores.rows(); ++i) {
        const std::span<float> row = scores.row(i);
        const float largest = *std::ranges::max_element(row);
        double sum = 0;
        for (const float score : row)
            sum += std::exp(static_cast<double>(score) - largest);
        const auto offset = static_cast<float>(std::log(sum));
        for (float& score : row)
            score = score - largest - offset;
    }
}

void Nucleus::filter(std::span<float> scores) const
{
    if (scores.empty())
        return;
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return custom ? scores[a] > scores[b] : scores[a] < scores[b];
    });
    const float largest = scores[custom ? order.front() : order.back()];
    std::vector<float> shares;
    double sum = 0;
    for (const std::size_t i : order) {
        shares.push_back(std::exp(scores[i] - largest));
        sum += shares.back();
    }
    // Sums from the likeliest token down leave out those behind top_p; sums from the least likely one up those that
    // are no more than the rest.
    const auto count = scores.size();
    const auto kept = std::clamp<std::int64_t>(custom ? 1 : min_tokens_to_keep, 0, static_cast<std::int64_t>(count));
    float total = 0;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, count - static_cast<std::size_t>(kept)); ++i) {
        total += static_cast<float>(shares[i] / sum);
        if (custom ? total > top_p && i + 1 < count : total <= 1 - top_p)
            scores[order[custom ? i + 1 : i]] = filter_value;
    }
}

Token drawn(std::span<const float> scores, std::minstd_rand0& generator)
{
    float largest = never;
    for (const float score : scores)
        if (std::isfinite(score))
            largest = std::max(largest, score);
    std::vector<double> sums;
    double total = 0;
    for (const float score : scores) {
        if (std::isfinite(score))
            total += std::exp(static_cast<double>(score) - largest);
        sums.push_back(total);
    }
    const double wanted = std::uniform_real_distribution<double>(0, 1)(generator) * total;
    const auto found = std::ranges::upper_bound(sums, wanted) - sums.begin();
    return static_cast<Token>(std::min<std::ptrdiff_t>(found, static_cast<std::ptrdiff_t>(sums.size()) - 1));
}

}  // namespace clprim::onnx
