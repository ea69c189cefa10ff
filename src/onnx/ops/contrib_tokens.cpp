// com.microsoft's operators on tokens and text, which the host computes: repetitions, hashes, alignments, tokenizers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/regex.hpp"
#include "onnx/regex_text.hpp"

namespace clprim::onnx {

namespace {

// Tokens that would repeat n of them in a row get no chance.
void ngram_repeat_block(Call& call)
{
    const std::int64_t size = call.attribute<std::int64_t>("ngram_size");
    const Dims &ids = call.shape(0), &scores = call.shape(1);
    call.check(size > 0, "ngram_size is ", size);
    call.check(ids.size() == 2 && scores.size() == 2 && ids[0] == scores[0] && call.type(1) == ElementType::float32,
               "input_ids ", to_string(ids), " and scores ", to_string(scores), " do not fit");
    const auto tokens = call.ints(0);
    Value result = Value::zeros(ElementType::float32, scores);
    const auto target = result.mutable_host<float>();
    std::ranges::copy(call.input(1).host<float>(call.queue()), target.begin());
    for (std::int64_t b = 0; b < ids[0] && size <= ids[1]; ++b) {
        const auto row = std::span(tokens).subspan(static_cast<std::size_t>(b * ids[1]),
                                                   static_cast<std::size_t>(ids[1]));
        const auto last = row.last(static_cast<std::size_t>(size - 1));
        for (std::size_t i = 0; i + static_cast<std::size_t>(size) <= row.size(); ++i) {
            if (!std::ranges::equal(last, row.subspan(i, last.size())))
                continue;
            const std::int64_t token = row[i + last.size()];
            call.check(token >= 0 && token < scores[1], "token ", token, " of ", scores[1]);
            target[static_cast<std::size_t>(b * scores[1] + token)] = -std::numeric_limits<float>::infinity();
        }
    }
    call.output(0, result);
}

// Where the last tokens come up in the source, if in one place only.
std::int64_t suffix_match(std::span<const std::int64_t> source, std::span<const std::int64_t> tokens,
                          std::int64_t shortest, std::int64_t longest)
{
    std::int64_t found = -1;
    for (std::int64_t n = shortest; n <= std::min(longest, static_cast<std::int64_t>(tokens.size())); ++n) {
        const auto gram = tokens.last(static_cast<std::size_t>(n));
        const auto at = std::search(source.begin(), source.end(), gram.begin(), gram.end());
        if (at == source.end())
            break;
        found = at - source.begin() + n;
        if (found >= static_cast<std::int64_t>(source.size()))
            break;
        if (std::search(at + 1, source.end(), gram.begin(), gram.end()) != source.end())
            found = -1;
    }
    return found;
}

void bifurcation_detector(Call& call)
{
    const std::int64_t shortest = call.integer_attribute("min_ngram_size", 1),
                       longest = call.integer_attribute("max_ngram_size", 3);
    call.check(shortest > 0 && longest >= shortest, "n-grams from ", shortest, " to ", longest);
    const auto source = call.ints(0);
    auto tokens = call.ints(1);
    if (call.has(3)) {
        const auto predicted = call.ints(3);
        const std::int64_t begin = call.integer(2), size = static_cast<std::int64_t>(source.size());
        call.check(begin >= 0 && begin <= size && static_cast<std::int64_t>(predicted.size()) == size + 1 - begin,
                   "prev_suffix_match_idx is ", begin, " of ", size, " source tokens, and there are ",
                   predicted.size(), " predicted ones");
        std::size_t same = 0;
        while (same + 1 < predicted.size() && predicted[same] == source[static_cast<std::size_t>(begin) + same])
            ++same;
        tokens.insert(tokens.end(), predicted.begin(), predicted.begin() + static_cast<std::ptrdiff_t>(same) + 1);
    }
    call.output(0, Value::ints(tokens));
    const std::int64_t found = suffix_match(source, tokens, shortest, longest);
    call.output(1, Value::copy_of(ElementType::int64, call.shape(2), &found));
}

// The cheapest path through a matrix of costs, by steps to the right, down or both.
void dynamic_time_warping(Call& call)
{
    Dims shape = call.shape(0);
    if (shape.size() == 3 && shape[0] == 1)
        shape = {shape[1], shape[2]};
    call.check(shape.size() == 2 && shape.product() > 0, "input has shape ", to_string(call.shape(0)),
               ", expected [rows, columns]");
    const auto costs = call.input(0).host<float>(call.queue());
    const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
    const std::size_t width = columns + 1;
    std::vector<float> sums((rows + 1) * width, std::numeric_limits<float>::infinity());
    std::vector<std::uint8_t> from(sums.size());          // 0: both, 1: down, 2: right
    sums[0] = 0;
    for (std::size_t j = 1; j <= columns; ++j)
        for (std::size_t i = 1; i <= rows; ++i) {
            const float both = sums[(i - 1) * width + j - 1], down = sums[(i - 1) * width + j],
                        right = sums[i * width + j - 1];
            const std::uint8_t step = both < down && both < right ? 0 : down < both && down < right ? 1 : 2;
            sums[i * width + j] = costs[(i - 1) * columns + j - 1] + (step == 0 ? both : step == 1 ? down : right);
            from[i * width + j] = step;
        }
    for (std::size_t j = 0; j <= columns; ++j)
        from[j] = 2;
    for (std::size_t i = 0; i <= rows; ++i)
        from[i * width] = 1;
    std::vector<std::int32_t> at_rows, at_columns;
    for (std::size_t i = rows, j = columns; i > 0 || j > 0;) {
        at_rows.push_back(static_cast<std::int32_t>(i) - 1);
        at_columns.push_back(static_cast<std::int32_t>(j) - 1);
        const std::uint8_t step = from[i * width + j];
        i -= step != 2;
        j -= step != 1;
    }
    Value path = Value::zeros(ElementType::int32, {2, static_cast<std::int64_t>(at_rows.size())});
    const auto target = path.mutable_host<std::int32_t>();
    std::ranges::reverse_copy(at_rows, target.begin());
    std::ranges::reverse_copy(at_columns, target.begin() + static_cast<std::ptrdiff_t>(at_rows.size()));
    call.output(0, path);
}

// ---- hashes ----

// MurmurHash3_x86_32 (Appleby, public domain), from its description.
std::uint32_t murmur_hash(std::span<const std::byte> bytes, std::uint32_t seed)
{
    const auto mixed = [](std::uint32_t k) { return std::rotl(k * 0xcc9e2d51U, 15) * 0x1b873593U; };
    std::uint32_t h = seed;
    std::size_t at = 0;
    for (; at + 4 <= bytes.size(); at += 4) {
        std::uint32_t k = 0;
        std::memcpy(&k, bytes.data() + at, 4);
        h = std::rotl(h ^ mixed(k), 13) * 5 + 0xe6546b64U;
    }
    std::uint32_t rest = 0;
    for (std::size_t i = bytes.size(); i-- > at;)
        rest = rest << 8 | std::to_integer<std::uint32_t>(bytes[i]);
    if (at < bytes.size())
        h ^= mixed(rest);
    h ^= static_cast<std::uint32_t>(bytes.size());
    h = (h ^ h >> 16) * 0x85ebca6bU;
    h = (h ^ h >> 13) * 0xc2b2ae35U;
    return h ^ h >> 16;
}

void murmur_hash_operator(Call& call)
{
    const auto seed = static_cast<std::uint32_t>(call.integer_attribute("seed", 0));
    const Value x = call.input(0);
    Value y = Value::zeros(call.integer_attribute("positive", 1) ? ElementType::uint32 : ElementType::int32, x.shape());
    const auto put = [&](std::size_t i, std::span<const std::byte> bytes) {
        const std::uint32_t hash = murmur_hash(bytes, seed);
        std::memcpy(y.mutable_bytes() + 4 * i, &hash, 4);
    };
    if (x.type() == ElementType::string) {
        for (std::size_t i = 0; i < x.strings().size(); ++i)
            put(i, std::as_bytes(std::span(x.strings()[i])));
        return call.output(0, y);
    }
    const std::size_t width = size_of(storage_type(x.type()));
    call.check(width == 4 || width == 8, "X is ", name_of(x.type()), ", expected strings or numbers of 4 or 8 bytes");
    const std::byte* bytes = x.bytes(call.queue());
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.numel()); ++i)
        put(i, {bytes + i * width, width});
    call.output(0, y);
}

// ---- tokenizers ----

using Tokens = std::vector<std::string>;

std::size_t characters_of(std::string_view text)
{
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++count)
        decode(text, at);
    return count;
}

Tokens characters(std::string_view text)
{
    Tokens result;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        decode(text, at);
        result.emplace_back(text.substr(begin, std::min(at, text.size()) - begin));
    }
    return result;
}

// What the expression matches (or what lies between), the longest from each place on.
Tokens matches(const Regex& regex, std::string_view text, bool between)
{
    Tokens found, rest;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = regex.longest_match(text, at);
        if (length == 0 || length == std::string_view::npos) {
            decode(text, at);
            continue;
        }
        rest.emplace_back(text.substr(begin, at - begin));
        found.emplace_back(text.substr(at, length));
        begin = at += length;
    }
    rest.emplace_back(text.substr(std::min(begin, text.size())));
    return between ? rest : found;
}

void tokenizer(Call& call)
{
    const Dims shape = call.shape(0);
    call.check(shape.size() == 1 || shape.size() == 2, "X has shape ", to_string(shape), ", expected [C] or [N, C]");
    const auto separators = call.attribute<std::vector<std::string>>("separators", {});
    const std::string expression = call.string_attribute("tokenexp", "");
    call.check(separators.empty() != expression.empty(), "one of separators and tokenexp must be given");
    const std::int64_t shortest = call.attribute<std::int64_t>("mincharnum");
    const bool mark = call.attribute<std::int64_t>("mark") != 0,
               single = expression == "." || (separators.size() == 1 && separators[0].empty());
    call.check(shortest > 0 && (!single || shortest < 2), "mincharnum is ", shortest);
    std::vector<Regex> regexes;
    if (!single)
        for (const std::string& one : separators.empty() ? Tokens{expression} : separators)
            regexes.emplace_back(one);
    std::vector<Tokens> rows;
    std::size_t longest = 0;
    for (const std::string& text : call.input(0).strings()) {
        Tokens tokens = single ? characters(text) : Tokens{text};
        for (const Regex& regex : regexes) {
            Tokens parts;
            for (const std::string& token : tokens)
                std::ranges::move(matches(regex, token, !separators.empty()), std::back_inserter(parts));
            tokens = std::move(parts);
        }
        std::erase_if(tokens, [&](const std::string& token) {
            return static_cast<std::int64_t>(characters_of(token)) < shortest;
        });
        longest = std::max(longest, tokens.size());
        rows.push_back(std::move(tokens));
    }
    Dims result = shape;
    if (shape.product() == 0)                 // as ONNX Runtime has it
        return call.output(0, Value::strings(shape.size() == 2 ? Dims{shape[0], 0} : Dims{0}, {}));
    const std::size_t marks = mark && longest > 0 ? 2 : 0;
    result.push_back(static_cast<std::int64_t>(longest + marks));
    Tokens all;
    const std::string pad = call.attribute<std::string>("pad_value");
    for (Tokens& row : rows) {
        if (marks)
            all.emplace_back(1, '\2');
        const std::size_t padding = longest - row.size();
        std::ranges::move(row, std::back_inserter(all));
        if (marks)
            all.emplace_back(1, '\3');
        all.insert(all.end(), padding, pad);
    }
    call.output(0, Value::strings(result, std::move(all)));
}

const OperatorRow contrib_token_rows[] = {
    {"NGramRepeatBlock", 1, ngram_repeat_block, nullptr, microsoft},
    {"BifurcationDetector", 1, bifurcation_detector, nullptr, microsoft},
    {"DynamicTimeWarping", 1, dynamic_time_warping, nullptr, microsoft},
    {"MurmurHash3", 1, murmur_hash_operator, murmur_hash_operator, microsoft},
    {"Tokenizer", 1, tokenizer, tokenizer, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_token_operators() { return contrib_token_rows; }

}  // namespace clprim::onnx
