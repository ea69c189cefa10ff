#include "onnx/ops/beams.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace clprim::onnx {

Beams::Beams(const BeamOptions& options, std::size_t batch)
    : options_(options), ended_(batch), done_(batch), scores_(batch * options.beams, -1e9F),
      tokens_(batch * options.beams), parents_(batch * options.beams)
{
    for (std::size_t i = 0; i < batch; ++i)
        scores_[i * options.beams] = 0;          // else all beams of a sample would go the same way
}

void Beams::add(std::size_t sample, std::span<const Sequence> sequences, std::size_t row, float sum)
{
    auto& ended = ended_[sample];
    const float score = sum / std::pow(static_cast<float>(sequences[row].size()), options_.length_penalty);
    if (ended.size() >= options_.beams && score <= ended.back().score)
        return;
    const auto worse = std::ranges::find_if(ended, [&](const Hypothesis& other) { return other.score < score; });
    ended.insert(worse, {sequences[row], score, step_, row});
    if (ended.size() > options_.beams)
        ended.pop_back();
}

void Beams::step_sample(std::size_t sample, TokenScores& scores, std::span<const Sequence> sequences)
{
    const std::size_t beams = options_.beams, first = sample * beams;
    const auto vocabulary = static_cast<std::size_t>(scores.vocabulary);
    const auto all = std::span(scores.numbers).subspan(first * vocabulary, beams * vocabulary);
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto top = order.begin() + static_cast<std::ptrdiff_t>(std::min(2 * beams, order.size()));
    std::partial_sort(order.begin(), top, order.end(), [&](std::size_t a, std::size_t b) {
        return all[a] != all[b] ? all[a] > all[b] : a < b;
    });
    const float best = all[order[0]];
    const std::size_t length = sequences[first].size();
    std::size_t going_on = 0;
    for (auto at = order.begin(); at != top && going_on < beams; ++at) {
        const std::size_t parent = first + *at / vocabulary;
        const auto token = static_cast<Token>(*at % vocabulary);
        if (token == options_.eos) {
            if (at - order.begin() < static_cast<std::ptrdiff_t>(beams))
                add(sample, sequences, parent, all[*at]);
            continue;
        }
        scores_[first + going_on] = all[*at];
        tokens_[first + going_on] = token;
        parents_[first + going_on] = static_cast<std::int64_t>(parent);
        ++going_on;
    }
    require(going_on == beams, "a vocabulary of ", vocabulary, " tokens is too small for ", beams, " beams");
    if (ended_[sample].size() < beams)
        return;
    // The best that is still to come cannot displace the worst that has ended.
    done_[sample] = options_.early_stopping ||
                    ended_[sample].back().score >= best / std::pow(static_cast<float>(length), options_.length_penalty);
}

void Beams::step(TokenScores& scores, std::span<const Sequence> sequences)
{
    for (std::size_t sample = 0; sample < ended_.size(); ++sample) {
        if (!done_[sample]) {
            step_sample(sample, scores, sequences);
            continue;
        }
        for (std::size_t i = sample * options_.beams; i < (sample + 1) * options_.beams; ++i) {
            scores_[i] = 0;
            tokens_[i] = options_.pad;
            parents_[i] = static_cast<std::int64_t>(i);
        }
    }
    ++step_;
}

void Beams::finish(std::span<const Sequence> sequences)
{
    for (std::size_t sample = 0; sample < ended_.size(); ++sample)
        if (!done_[sample])
            for (std::size_t i = sample * options_.beams; i < (sample + 1) * options_.beams; ++i)
                add(sample, sequences, i, scores_[i]);
}

bool Beams::done() const
{
    return std::ranges::all_of(done_, [](bool done) { return done; });
}

std::span<const Beams::Hypothesis> Beams::best(std::size_t sample) const
{
    return std::span(ended_[sample]).first(std::min(options_.returned, ended_[sample].size()));
}

}  // namespace clprim::onnx
