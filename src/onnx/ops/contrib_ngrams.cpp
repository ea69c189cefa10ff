// com.microsoft's hashes of n-grams, NGramHashMapping and VarlenNGramHashMapping: integers, which the host computes.
#include <algorithm>
#include <optional>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

// What both operators are told about n-grams.
struct NGrams {
    std::int64_t longest = 0, heads = 0, pad = 0, missing = 0;   // `missing` stands for ids that there are none of
    std::optional<std::int64_t> end;                             // ends what came before
    Integers multipliers, sizes, offsets;
    ElementType type = ElementType::int64;

    std::int64_t carried() const { return longest - 1; }
    std::int64_t hashes() const { return carried() * heads; }
    // Arithmetic wraps around in the type of the ids.
    std::int64_t wrapped(std::uint64_t x) const
    {
        return type == ElementType::int32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(x))
                                          : static_cast<std::int64_t>(x);
    }
};

// Ids of one sequence and what was carried from before it, oldest first; segments are empty where there are none.
struct Sequence {
    Integers past, ids, past_segments, segments;
};

NGrams ngrams_of(const Call& call, std::size_t offsets, std::size_t end)
{
    NGrams n;
    n.longest = call.attribute<std::int64_t>("max_ngram_size");
    n.heads = call.attribute<std::int64_t>("n_head_per_ngram");
    n.pad = call.attribute<std::int64_t>("pad_id");
    n.type = call.type(0);
    call.check(n.type == ElementType::int32 || n.type == ElementType::int64, "input_ids are ", name_of(n.type));
    call.check(n.longest >= 2 && n.longest <= 64 && n.heads > 0 && n.heads <= 4096, "max_ngram_size is ", n.longest,
               " and n_head_per_ngram ", n.heads);
    n.multipliers = call.ints(1);
    n.sizes = call.ints(2);
    n.offsets = call.has(offsets) ? call.ints(offsets) : Integers(static_cast<std::size_t>(n.hashes()));
    const auto whole = static_cast<std::size_t>(n.hashes());
    call.check(n.multipliers.size() >= static_cast<std::size_t>(n.longest) && n.sizes.size() == whole &&
                   n.offsets.size() == whole,
               n.multipliers.size(), " multipliers, ", n.sizes.size(), " vocab_sizes and ", n.offsets.size(),
               " head_offsets do not fit n-grams up to ", n.longest, " with ", n.heads, " heads");
    call.check(std::ranges::all_of(n.sizes, [](std::int64_t size) { return size > 0; }),
               "vocab_sizes must be positive");
    n.missing = call.has(end) ? call.integer(end) : n.pad;
    if (call.has(end) && call.integer_attribute("reset_on_eos", 0) != 0)
        n.end = n.missing;
    return n;
}

// The hashes of one sequence: for each id those of its n-grams of two, of three, ...
void hash(const NGrams& n, const Sequence& s, Integers& hashes)
{
    Integers all = s.past;
    all.insert(all.end(), s.ids.begin(), s.ids.end());
    const std::size_t before = s.past.size();
    Integers segments = s.past_segments;
    segments.insert(segments.end(), s.segments.begin(), s.segments.end());
    const std::size_t unknown = all.size() - segments.size();    // ids at the beginning without a segment
    std::size_t first = 0;                                        // of what the next id may see
    for (std::size_t at = 0; at < all.size(); ++at) {
        if (at > 0 && n.end && all[at - 1] == *n.end)
            first = at;
        if (!segments.empty() && at > unknown && segments[at - unknown] != segments[at - unknown - 1])
            first = at;
        if (at < before)
            continue;
        std::uint64_t mix = 0;
        for (std::int64_t shift = 0; shift < n.longest; ++shift) {
            const auto back = static_cast<std::size_t>(shift);
            const std::int64_t id = at >= first + back ? all[at - back] : n.missing;
            mix ^= static_cast<std::uint64_t>(id) * static_cast<std::uint64_t>(n.multipliers[back]);
            for (std::int64_t head = 0; shift > 0 && head < n.heads; ++head) {
                const auto place = static_cast<std::size_t>((shift - 1) * n.heads + head);
                const std::int64_t size = n.sizes[place], rest = n.wrapped(mix) % size;
                hashes.push_back(n.wrapped(static_cast<std::uint64_t>(rest < 0 ? rest + size : rest) +
                                           static_cast<std::uint64_t>(n.offsets[place])));
            }
        }
    }
}

Value integers(ElementType type, const Dims& shape, const Integers& numbers)
{
    Value value = Value::zeros(type, shape);
    if (type == ElementType::int64)
        std::ranges::copy(numbers, value.mutable_host<std::int64_t>().begin());
    else
        std::ranges::transform(numbers, value.mutable_host<std::int32_t>().begin(),
                               [](std::int64_t x) { return static_cast<std::int32_t>(x); });
    return value;
}

// Rows [batch, width] of an input; `otherwise` where it is absent.
std::vector<Integers> rows_of(const Call& call, std::size_t input, const Dims& shape, const Integers& otherwise)
{
    const auto batch = static_cast<std::size_t>(shape[0]);
    if (!call.has(input))
        return std::vector<Integers>(batch, otherwise);
    call.check(call.shape(input) == shape, "input ", input, " has shape ", to_string(call.shape(input)),
               ", expected ", to_string(shape));
    const Integers all = call.ints(input);
    std::vector<Integers> rows;
    for (std::size_t b = 0; b < batch; ++b)
        rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(b) * shape[1],
                          all.begin() + static_cast<std::ptrdiff_t>(b + 1) * shape[1]);
    return rows;
}

// The last of what was carried and of the first `count` new ones, as many as are carried.
void append_last(const Integers& past, const Integers& fresh, std::size_t count, Integers& to)
{
    Integers all = past;
    all.insert(all.end(), fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(count));
    to.insert(to.end(), all.end() - static_cast<std::ptrdiff_t>(past.size()), all.end());
}

void ngram_hash_mapping(Call& call)
{
    const Dims shape = call.shape(0);
    call.check(shape.size() == 2, "input_ids has shape ", to_string(shape), ", expected [batch, length]");
    const NGrams n = ngrams_of(call, 4, 5);
    const Dims carried{shape[0], n.carried()};
    const auto past = rows_of(call, 3, carried, Integers(static_cast<std::size_t>(n.carried()), n.missing));
    const auto ids = rows_of(call, 0, shape, {}), segments = rows_of(call, 6, shape, {});
    Integers hashes, present;
    for (std::size_t b = 0; b < ids.size(); ++b) {
        hash(n, {past[b], ids[b], {}, segments[b]}, hashes);
        append_last(past[b], ids[b], ids[b].size(), present);
    }
    call.output(0, integers(n.type, {shape[0], shape[1], n.hashes()}, hashes));
    call.output(1, integers(n.type, carried, present));
}

// Sequences of all lengths one after the other, `ends` [batch + 1] from 0 on.
void varlen_ngram_hash_mapping(Call& call)
{
    call.check(call.shape(0).size() == 1, "input_ids has shape ", to_string(call.shape(0)), ", expected [tokens]");
    const NGrams n = ngrams_of(call, 5, 6);
    const std::int64_t tokens = call.shape(0)[0];
    const auto ends = packed_ends(call, 3, tokens);
    const auto batch = static_cast<std::int64_t>(ends.size()) - 1;
    const Dims carried{batch, n.carried()};
    const auto width = static_cast<std::size_t>(n.carried());
    const auto past = rows_of(call, 4, carried, Integers(width, n.missing)),
               past_segments = rows_of(call, 8, carried, {});
    const std::int64_t capacity = call.integer_attribute("state_update_capacity", 0);
    const Integers captured = captured_counts(call, 9, capacity, ends);
    const Integers all = call.ints(0), all_segments = call.has(7) ? call.ints(7) : Integers();
    call.check(!call.has(7) || all_segments.size() == all.size(), "there are ", all_segments.size(),
               " segment_ids for ", tokens, " tokens");
    call.check(call.has(7) || !call.has(8), "past_segment_ids need segment_ids");
    Integers hashes, present, present_segments, updates;
    for (std::size_t b = 0; b + 1 < ends.size(); ++b) {
        const auto part = [&](const Integers& from) {
            return from.empty() ? Integers() : Integers(from.begin() + ends[b], from.begin() + ends[b + 1]);
        };
        const Sequence s{past[b], part(all), past_segments[b], part(all_segments)};
        hash(n, s, hashes);
        append_last(s.past, s.ids, s.ids.size(), present);
        if (!s.segments.empty())
            append_last(s.past_segments.empty() ? Integers(width, s.segments.front()) : s.past_segments, s.segments,
                        s.segments.size(), present_segments);
        for (std::int64_t i = 0; i < capacity; ++i)
            if (i < captured[b])
                append_last(s.past, s.ids, static_cast<std::size_t>(i + 1), updates);
            else
                updates.insert(updates.end(), width, n.pad);
    }
    present_segments.resize(present.size());
    call.output(0, integers(n.type, {tokens, n.hashes()}, hashes));
    call.output(1, integers(n.type, carried, present));
    call.output(2, integers(ElementType::int32, carried, present_segments));
    call.output(3, integers(n.type, {batch, capacity, n.carried()}, updates));
}

const OperatorRow contrib_ngram_rows[] = {
    {"NGramHashMapping", 1, ngram_hash_mapping, ngram_hash_mapping, microsoft},
    {"VarlenNGramHashMapping", 1, varlen_ngram_hash_mapping, varlen_ngram_hash_mapping, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_ngram_operators() { return contrib_ngram_rows; }

}  // namespace clprim::onnx
