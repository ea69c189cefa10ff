// Operators on strings, which live on the host.
#include <core/system.hpp>

#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/regex.hpp"
#include "onnx/regex_text.hpp"

namespace clprim::onnx {

namespace {

void concat_strings(Call& call)
{
    const auto &a = call.input(0).strings(), &b = call.input(1).strings();
    const Dims shape = broadcast_inputs(call);
    std::vector<std::string> result(static_cast<std::size_t>(shape.product()));
    for_each_broadcast(shape, {call.shape(0), call.shape(1)},
                       [&](std::size_t i, const auto& at) { result[i] = a[at[0]] + b[at[1]]; });
    call.output(0, Value::strings(shape, std::move(result)));
}

// At most `most` splits; the rest of the text is the last part. Without a delimiter, runs of white space separate.
std::vector<std::string> split_text(std::string_view text, std::string_view delimiter, std::size_t most)
{
    constexpr std::string_view white = " \t\n\v\f\r";
    std::vector<std::string> parts;
    if (delimiter.empty()) {
        for (std::size_t at = text.find_first_not_of(white); at != text.npos;) {
            const std::size_t end = parts.size() == most ? text.npos : text.find_first_of(white, at);
            parts.emplace_back(text.substr(at, end - at));
            at = end == text.npos ? end : text.find_first_not_of(white, end);
        }
        return parts;
    }
    for (std::size_t at = 0; at != text.npos;) {
        const std::size_t end = parts.size() == most ? text.npos : text.find(delimiter, at);
        parts.emplace_back(text.substr(at, end - at));
        at = end == text.npos ? end : end + delimiter.size();
    }
    return parts;
}

void split_strings(Call& call)
{
    const std::string delimiter = call.string_attribute("delimiter", "");
    const std::int64_t given = call.integer_attribute("maxsplit", -1);
    const std::size_t most = given < 0 ? std::string::npos : static_cast<std::size_t>(given);
    std::vector<std::vector<std::string>> all;
    std::size_t longest = 0;
    Value counts = Value::zeros(ElementType::int64, call.shape(0));
    for (const std::string& text : call.input(0).strings()) {
        all.push_back(split_text(text, delimiter, most));
        counts.mutable_host<std::int64_t>()[all.size() - 1] = static_cast<std::int64_t>(all.back().size());
        longest = std::max(longest, all.back().size());
    }
    std::vector<std::string> result;
    for (auto& parts : all) {
        parts.resize(longest);
        std::ranges::move(parts, std::back_inserter(result));
    }
    Dims shape = call.shape(0);
    shape.push_back(static_cast<std::int64_t>(longest));
    call.output(0, Value::strings(shape, std::move(result)));
    call.output(1, std::move(counts));
}

void regex_full_match(Call& call)
{
    const Regex regex(call.attribute<std::string>("pattern"));
    Value result = Value::zeros(ElementType::boolean, call.shape(0));
    std::size_t i = 0;
    for (const std::string& text : call.input(0).strings())
        result.mutable_host<std::uint8_t>()[i++] = regex.full_match(text);
    call.output(0, std::move(result));
}

std::string encode(std::uint32_t c)
{
    if (c < 0x80)
        return {static_cast<char>(c)};
    std::string text;
    const int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text += static_cast<char>((0xff00 >> (extra + 1) & 0xff) | c >> 6 * extra);
    for (int i = extra - 1; i >= 0; --i)
        text += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
    return text;
}

// The text in one case, by Unicode's simple mappings.
std::string in_case(std::string_view text, bool upper)
{
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const std::uint32_t c = decode(text, at);
        if (c >= 0x80 && at - begin == 1) {          // no character: kept as it is
            result += text[begin];
            continue;
        }
        result += encode(clprim::detail::in_case(c, upper));
    }
    return result;
}

// Drops stop words, then changes case.
void normalize_strings(Call& call)
{
    const std::string action = call.string_attribute("case_change_action", "NONE");
    call.check(action == "NONE" || action == "LOWER" || action == "UPPER", "case_change_action is ", action,
               ", expected LOWER, UPPER or NONE");
    const Dims& shape = call.shape(0);
    call.check(shape.size() == 1 || (shape.size() == 2 && shape[0] == 1), "X has shape ", to_string(shape),
               ", expected [C] or [1, C]");
    const bool sensitive = call.integer_attribute("is_case_sensitive", 0);
    std::vector<std::string> stops = call.attribute<std::vector<std::string>>("stopwords", {});
    if (!sensitive)
        for (std::string& word : stops)
            word = in_case(word, false);
    std::ranges::sort(stops);
    std::vector<std::string> kept;
    for (const std::string& text : call.input(0).strings())
        if (!std::ranges::binary_search(stops, sensitive ? text : in_case(text, false)))
            kept.push_back(action == "NONE" ? text : in_case(text, action == "UPPER"));
    if (kept.empty())
        kept.emplace_back();
    const auto count = static_cast<std::int64_t>(kept.size());
    call.output(0, Value::strings(shape.size() == 1 ? Dims{count} : Dims{1, count}, std::move(kept)));
}

// The n-grams of a vectorizer as a trie; node 0 is the root.
struct Grams {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> child;   // (node, token) -> node
    std::map<std::int64_t, std::int64_t> place; // of nodes that end an n-gram: where it is counted
    std::map<std::string, std::int64_t, std::less<>> tokens;               // numbers of strings

    std::int64_t step(std::int64_t node, std::int64_t token) const
    {
        const auto found = child.find({node, token});
        return found == child.end() ? -1 : found->second;
    }
};

struct GramLengths {
    std::int64_t shortest, longest, skips;
};

Grams read_grams(const Call& call, const GramLengths& lengths, const std::vector<std::int64_t>& places)
{
    Grams grams;
    std::vector<std::int64_t> pool = call.ints_attribute("pool_int64s");
    for (const std::string& text : call.attribute<std::vector<std::string>>("pool_strings", {}))
        pool.push_back(grams.tokens.emplace(text, static_cast<std::int64_t>(grams.tokens.size())).first->second);
    const auto counts = call.attribute<std::vector<std::int64_t>>("ngram_counts");
    std::size_t gram = 0;
    for (std::size_t n = 1; n <= counts.size(); ++n) {
        const std::int64_t begin = counts[n - 1],
                           end = n < counts.size() ? counts[n] : static_cast<std::int64_t>(pool.size());
        call.check(begin >= 0 && begin <= end && end <= static_cast<std::int64_t>(pool.size()),
                   "ngram_counts leaves the pool of ", pool.size());
        for (auto at = static_cast<std::size_t>(begin); at + n <= static_cast<std::size_t>(end); at += n, ++gram) {
            call.check(gram < places.size(), "there are more n-grams than ngram_indexes");
            if (static_cast<std::int64_t>(n) < lengths.shortest || static_cast<std::int64_t>(n) > lengths.longest)
                continue;
            std::int64_t node = 0;
            for (std::size_t k = 0; k < n; ++k)
                node = grams.child
                           .emplace(std::pair(node, pool[at + k]), static_cast<std::int64_t>(grams.child.size()) + 1)
                           .first->second;
            grams.place[node] = places[gram];
        }
    }
    return grams;
}

void count_grams(const Grams& grams, const GramLengths& lengths, std::span<const std::int64_t> row,
                 std::span<float> counts)
{
    std::int64_t shortest = lengths.shortest;
    // At distances beyond the row only single words are left.
    const std::int64_t farthest = std::min(lengths.skips, static_cast<std::int64_t>(row.size())) + 1;
    for (std::int64_t step = 1; step <= farthest && shortest <= lengths.longest; ++step) {
        for (std::size_t start = 0; start < row.size(); ++start) {
            std::int64_t node = 0, n = 1;
            for (std::size_t at = start; at < row.size() && n <= lengths.longest;
                 at += static_cast<std::size_t>(step), ++n) {
                node = grams.step(node, row[at]);
                if (node < 0)
                    break;
                const auto found = grams.place.find(node);
                if (n >= shortest && found != grams.place.end())
                    ++counts[static_cast<std::size_t>(found->second)];
            }
        }
        shortest = std::max<std::int64_t>(shortest, 2);          // single words are the same at every distance
    }
}

void tf_idf(Call& call)
{
    const std::string mode = call.attribute<std::string>("mode");
    call.check(mode == "TF" || mode == "IDF" || mode == "TFIDF", "mode is ", mode, ", expected TF, IDF or TFIDF");
    const GramLengths lengths{call.attribute<std::int64_t>("min_gram_length"),
                              call.attribute<std::int64_t>("max_gram_length"),
                              call.attribute<std::int64_t>("max_skip_count")};
    call.check(lengths.shortest >= 1 && lengths.shortest <= lengths.longest && lengths.skips >= 0, "n-grams from ",
               lengths.shortest, " to ", lengths.longest, " with ", lengths.skips, " skips");
    const auto places = call.attribute<std::vector<std::int64_t>>("ngram_indexes");
    constexpr std::int64_t most = std::int64_t{1} << 28;
    std::int64_t width = 0;
    for (const std::int64_t place : places) {
        call.check(place >= 0 && place < most, "ngram_indexes holds ", place);
        width = std::max(width, place + 1);
    }
    const Grams grams = read_grams(call, lengths, places);
    std::vector<std::int64_t> items;
    if (call.type(0) == ElementType::string)
        for (const std::string& text : call.input(0).strings()) {
            const auto found = grams.tokens.find(text);
            items.push_back(found == grams.tokens.end() ? -1 : found->second);
        }
    else
        items = call.ints(0);
    const Dims& shape = call.shape(0);
    call.check(shape.size() <= 2, "X has shape ", to_string(shape), ", expected [C] or [N, C]");
    const std::int64_t rows = shape.size() == 2 ? shape[0] : 1;
    const auto row_size = rows ? items.size() / static_cast<std::size_t>(rows) : 0,
               row_width = static_cast<std::size_t>(width);
    Value result = Value::zeros(ElementType::float32, shape.size() == 2 ? Dims{rows, width} : Dims{width});
    const auto counts = result.mutable_host<float>();
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
        count_grams(grams, lengths, std::span(items).subspan(row * row_size, row_size),
                    counts.subspan(row * row_width, row_width));
    const auto weights = call.attribute<std::vector<float>>("weights", {});
    call.check(mode == "TF" || weights.empty() || weights.size() >= row_width, "there are ", weights.size(),
               " weights for ", width, " columns");
    for (std::size_t i = 0; mode != "TF" && i < counts.size(); ++i)
        counts[i] =
            (mode == "IDF" ? std::min(counts[i], 1.0f) : counts[i]) * (weights.empty() ? 1.0f : weights[i % row_width]);
    call.output(0, std::move(result));
}

const OperatorRow text_rows[] = {
    {"StringConcat", 20, concat_strings},
    {"StringSplit", 20, split_strings},
    {"StringNormalizer", 10, normalize_strings},
    {"RegexFullMatch", 20, regex_full_match},
    {"TfIdfVectorizer", 9, tf_idf},
};

}  // namespace

std::span<const OperatorRow> text_operators() { return text_rows; }

}  // namespace clprim::onnx
