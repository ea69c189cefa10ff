#include "onnx/ops/decoders.hpp"

#include <algorithm>

#include <clprim/copy.hpp>

#include "onnx/ops/subgraph_decoder.hpp"

namespace clprim::onnx {

TokenMatrix TokenMatrix::of(const Call& call, std::size_t input)
{
    call.check(call.shape(input).size() == 2, "input ", input, " has shape ", to_string(call.shape(input)),
               ", expected [batch, length]");
    TokenMatrix matrix{call.shape(input)[0], call.shape(input)[1], {}};
    for (const std::int64_t element : call.ints(input))
        matrix.elements.push_back(static_cast<Token>(element));
    return matrix;
}

TokenMatrix TokenMatrix::column(std::vector<Token> elements)
{
    const auto rows = static_cast<std::int64_t>(elements.size());
    return {rows, 1, std::move(elements)};
}

std::span<Token> TokenMatrix::row(std::int64_t i)
{
    return std::span(elements).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
}

TokenMatrix TokenMatrix::repeated(std::int64_t times)
{
    TokenMatrix result{rows * times, columns, {}};
    for (std::int64_t i = 0; i < rows * times; ++i)
        result.elements.insert(result.elements.end(), row(i / times).begin(), row(i / times).end());
    return result;
}

Value TokenMatrix::value(ElementType type) const
{
    Value result = Value::zeros(type, {rows, columns});
    if (type == ElementType::int64)
        std::ranges::copy(elements, result.mutable_host<std::int64_t>().begin());
    else
        std::ranges::copy(elements, result.mutable_host<Token>().begin());
    return result;
}

const Graph& subgraph(const Call& call, const char* name) { return *call.attribute<GraphRef>(name); }

std::string_view input_name(const Graph& graph, std::size_t i)
{
    return i < graph.input_ports.size() ? std::string_view(graph.input_ports[i].name) : std::string_view();
}

bool has_input(const Graph& graph, std::string_view name)
{
    return std::ranges::any_of(graph.input_ports, [&](const Port& port) { return port.name == name; });
}

std::size_t memories(const Graph& graph) { return graph.outputs.empty() ? 0 : graph.outputs.size() - 1; }

TokenScores SubgraphDecoder::scores_of(const Value& logits) const
{
    call_.check(logits.is_tensor() && logits.dim() == 3 && logits.shape()[1] > 0 && logits.numel() > 0,
                "the subgraph's logits are not [sequences, length, vocabulary]");
    const Tensor all = logits.device(call_.queue());
    const std::int64_t given = all.size(0), known = all.size(2),
                       vocabulary = prompt_.vocabulary > 0 ? prompt_.vocabulary : known;
    call_.check(vocabulary <= known && (given == rows() || given == prompt_.batch), "logits ",
                to_string(all.shape), " do not fit ", rows(), " sequences of ", vocabulary, " tokens");
    const Tensor last = all.slice(1, all.size(1) - 1, all.size(1)).slice(2, 0, vocabulary);
    const Tensor dense = call_.allocate({given, vocabulary}, DataType::float32);
    copy(call_.queue(), last, dense.reshape({given, 1, vocabulary}));
    const Value read(dense);
    const auto numbers = read.host<float>(call_.queue());
    TokenScores scores{{}, vocabulary};
    const std::int64_t times = rows() / given;
    for (std::int64_t i = 0; i < rows(); ++i) {
        const auto row = numbers.subspan(static_cast<std::size_t>(i / times * vocabulary),
                                         static_cast<std::size_t>(vocabulary));
        scores.numbers.insert(scores.numbers.end(), row.begin(), row.end());
    }
    return scores;
}

Value SubgraphDecoder::moved(const Value& past, std::int64_t axis, std::span<const std::int64_t> parents) const
{
    bool stays = static_cast<std::int64_t>(parents.size()) == past.shape()[static_cast<std::size_t>(axis)];
    for (std::size_t i = 0; i < parents.size(); ++i)
        stays = stays && parents[i] == static_cast<std::int64_t>(i);
    return stays ? past : op_("Gather", {past, Value::ints(parents)}, {{"axis", axis}});
}

Value SubgraphDecoder::extra(std::string_view name, std::int64_t past_length) const
{
    if (name == "past_sequence_length")
        return TokenMatrix{1, 1, {static_cast<Token>(past_length)}}.value().reshaped({1}, call_.queue());
    if (name == "beam_width" || name == "num_beams")
        return TokenMatrix{1, 1, {static_cast<Token>(prompt_.beams)}}.value().reshaped({1}, call_.queue());
    if (name == "cache_indirection") {
        Value from = Value::zeros(ElementType::int32, {prompt_.batch, prompt_.beams, prompt_.most});
        const auto elements = from.mutable_host<Token>();
        for (std::size_t i = 0; i < elements.size(); ++i)
            elements[i] = static_cast<Token>(static_cast<std::int64_t>(i) / prompt_.most % prompt_.beams);
        return from;
    }
    call_.fail("the subgraph's input ", name, " is not known");
}

std::unique_ptr<Decoder> decoder_of(Call& call, const Prompt& prompt)
{
    const std::int64_t type = call.integer_attribute("model_type", 0);
    if (type == 0)
        return gpt_decoder(call, prompt);
    call.check(type == (prompt.audio ? 2 : 1), "model_type is ", type, ", expected 0 (like GPT-2), 1 (like T5) or, of "
               "beam searches, 2 (Whisper)");
    return encoder_decoder(call, prompt);
}

}  // namespace clprim::onnx
