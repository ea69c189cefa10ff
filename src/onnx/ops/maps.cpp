// ai.onnx.ml's maps: scores of classifiers by their labels, and maps that become tensors. All on the host.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "onnx/ops/classifier.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_pick.hpp"

namespace clprim::onnx {

namespace {

// What a row of scores [N, C], or the one row [C], is by label: a sequence of N maps.
void zip_map(Call& call)
{
    const ClassLabels labels = class_labels(call, "classlabels_int64s");
    const Value& x = call.input(0);
    const auto count = static_cast<std::int64_t>(labels.size());
    call.check(x.type() == ElementType::float32, "X is ", name_of(x.type()), ", expected float32");
    call.check((x.dim() == 1 || x.dim() == 2) && x.shape().back() == count, "X has shape ", to_string(x.shape()),
               ", expected [N, ", count, "] or [", count, "] for ", count, " labels");
    const Value keys = labels.strings.empty() ? Value::ints(labels.ints) : Value::strings({count}, labels.strings);
    const std::byte* scores = x.bytes(call.queue());
    std::vector<Value> rows;
    for (std::int64_t row = 0; row < (x.dim() == 1 ? 1 : x.shape()[0]); ++row, scores += count * 4)
        rows.push_back(Value::map(keys, Value::copy_of(ElementType::float32, {count}, scores)));
    call.output(0, Value::sequence(std::move(rows), ElementType::float32));
}

const Value& map_input(const Call& call)
{
    const Value& x = call.input(0);
    call.check(x.is_map(), "X is a ", x.is_sequence() ? "sequence" : "tensor", ", expected a map");
    return x;
}

// Elements of a map's values in an order, and one of zero or no letters where there is none.
Value values_at(const Value& map, const std::vector<std::optional<std::int64_t>>& places)
{
    const Value& values = map.values();
    const Dims shape{1, static_cast<std::int64_t>(places.size())};
    if (values.type() == ElementType::string) {
        std::vector<std::string> texts;
        for (const auto& place : places)
            texts.push_back(place ? values.strings()[static_cast<std::size_t>(*place)] : std::string());
        return Value::strings(shape, std::move(texts));
    }
    Value result = Value::zeros(values.type(), shape);
    const std::size_t width = size_of(storage_type(values.type()));
    for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i])
            std::memcpy(result.mutable_bytes() + i * width,
                        values.host_bytes() + static_cast<std::size_t>(*places[i]) * width, width);
    return result;
}

template <class Key>
std::map<Key, std::int64_t> positions(std::span<const Key> keys)
{
    std::map<Key, std::int64_t> result;
    for (const Key& key : keys)
        result.emplace(key, static_cast<std::int64_t>(result.size()));
    return result;
}

template <class Key>
Value by_vocabulary(const Value& map, std::span<const Key> keys, const std::vector<Key>& vocabulary)
{
    const auto known = positions<Key>(keys);
    std::vector<std::optional<std::int64_t>> places;
    for (const Key& word : vocabulary) {
        const auto found = known.find(word);
        places.push_back(found == known.end() ? std::nullopt : std::optional(found->second));
    }
    return values_at(map, places);
}

// The values of a vocabulary's keys, in its order.
void dict_vectorizer(Call& call)
{
    const Value& x = map_input(call);
    const auto words = call.attribute<std::vector<std::string>>("string_vocabulary", {});
    const auto numbers = call.ints_attribute("int64_vocabulary");
    call.check(words.empty() != numbers.empty(), "one of string_vocabulary and int64_vocabulary is to be given");
    const ElementType wanted = words.empty() ? ElementType::int64 : ElementType::string;
    call.check(x.keys().type() == wanted || x.keys().numel() == 0, "X has keys of ", name_of(x.keys().type()),
               ", the vocabulary has ", name_of(wanted));
    if (x.keys().numel() == 0)
        return call.output(0, values_at(x, std::vector<std::optional<std::int64_t>>(words.size() + numbers.size())));
    call.output(0, words.empty()
                       ? by_vocabulary<std::int64_t>(x, x.keys().host<std::int64_t>(call.queue()), numbers)
                       : by_vocabulary<std::string>(x, x.keys().strings(), words));
}

template <class T>
T number_of(const Call& call, const std::string& text)
{
    T number{};
    const char *begin = text.data(), *end = begin + text.size();
    begin += text.starts_with('+');
    const auto [at, error] = std::from_chars(begin, end, number);
    call.check(error == std::errc() && at == end, "'", text, "' is no ",
               std::is_integral_v<T> ? "integer" : "number");
    return number;
}

// Values by ascending keys, all of them or those of keys from 0 to below max_map, as another type.
void cast_map(Call& call)
{
    const Value& x = map_input(call);
    const std::string to = call.string_attribute("cast_to", "TO_FLOAT"),
                      form = call.string_attribute("map_form", "DENSE");
    call.check(to == "TO_FLOAT" || to == "TO_STRING" || to == "TO_INT64", "cast_to is ", to,
               ", expected TO_FLOAT, TO_STRING or TO_INT64");
    call.check(form == "DENSE" || form == "SPARSE", "map_form is ", form, ", expected DENSE or SPARSE");
    const bool texts = x.type() == ElementType::string;
    call.check(texts || x.type() == ElementType::float32, "X has values of ", name_of(x.type()),
               ", expected strings or float32");
    call.check(x.keys().type() == ElementType::int64, "X has keys of ", name_of(x.keys().type()), ", expected int64");
    const auto known = positions<std::int64_t>(x.keys().host<std::int64_t>(call.queue()));
    std::vector<std::optional<std::int64_t>> places;
    if (form == "DENSE") {
        for (const auto& [key, place] : known)
            places.emplace_back(place);
    } else {
        const std::int64_t most = call.integer_attribute("max_map", 1);
        constexpr std::int64_t sane = std::int64_t{1} << 28;
        call.check(most > 0 && most <= sane, "max_map is ", most, ", expected 1 to ", sane);
        call.check(known.empty() || known.begin()->first >= 0, "X has the key ",
                   known.empty() ? 0 : known.begin()->first, "; expected none below 0");
        places.resize(static_cast<std::size_t>(most));
        for (const auto& [key, place] : known)
            if (key < most)
                places[static_cast<std::size_t>(key)] = place;
    }
    const Value picked = values_at(x, places);
    const Dims& shape = picked.shape();
    const auto count = places.size();
    if (to == "TO_STRING") {
        std::vector<std::string> result;                  // texts and gaps as ONNX Runtime writes them
        for (std::size_t i = 0; i < count; ++i)
            result.push_back(!places[i] ? "0.f" : texts ? picked.strings()[i]
                                                      : std::to_string(picked.host<float>(call.queue())[i]));
        return call.output(0, Value::strings(shape, std::move(result)));
    }
    const auto convert = [&]<class T>(ElementType type, T) {
        Value result = Value::zeros(type, shape);
        for (std::size_t i = 0; i < count; ++i)
            if (places[i])
                result.mutable_host<T>()[i] = texts ? number_of<T>(call, picked.strings()[i])
                                                    : static_cast<T>(picked.host<float>(call.queue())[i]);
        call.output(0, std::move(result));
    };
    to == "TO_FLOAT" ? convert(ElementType::float32, float{}) : convert(ElementType::int64, std::int64_t{});
}

const OperatorRow map_rows[] = {{"ZipMap", 1, zip_map, nullptr, ml},
                                {"CastMap", 1, cast_map, nullptr, ml},
                                {"DictVectorizer", 1, dict_vectorizer, nullptr, ml}};

}  // namespace

std::span<const OperatorRow> map_operators() { return map_rows; }

}  // namespace clprim::onnx
