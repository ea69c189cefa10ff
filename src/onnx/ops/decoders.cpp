#include "onnx/ops/decoders.hpp"

#include <algorithm>
#include <numeric>

#include <clprim/copy.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

using Values = std::vector<Value>;

struct TokenMatrix {
    std::int64_t rows = 0, columns = 0;
    std::vector<Token> elements;

    static TokenMatrix of(const Call& call, std::size_t input)
    {
        call.check(call.shape(input).size() == 2, "input ", input, " has shape ", to_string(call.shape(input)),
                   ", expected [batch, length]");
        TokenMatrix matrix{call.shape(input)[0], call.shape(input)[1], {}};
        for (const std::int64_t element : call.ints(input))
            matrix.elements.push_back(static_cast<Token>(element));
        return matrix;
    }
    static TokenMatrix column(std::vector<Token> elements)
    {
        const auto rows = static_cast<std::int64_t>(elements.size());
        return {rows, 1, std::move(elements)};
    }
    std::span<Token> row(std::int64_t i)
    {
        return std::span(elements).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
    }
    // Every row `times` times.
    TokenMatrix repeated(std::int64_t times)
    {
        TokenMatrix result{rows * times, columns, {}};
        for (std::int64_t i = 0; i < rows * times; ++i)
            result.elements.insert(result.elements.end(), row(i / times).begin(), row(i / times).end());
        return result;
    }
    Value value(ElementType type = ElementType::int32) const
    {
        Value result = Value::zeros(type, {rows, columns});
        if (type == ElementType::int64)
            std::ranges::copy(elements, result.mutable_host<std::int64_t>().begin());
        else
            std::ranges::copy(elements, result.mutable_host<Token>().begin());
        return result;
    }
};

const Graph& subgraph(const Call& call, const char* name) { return *call.attribute<GraphRef>(name); }

// Of a subgraph, "" where it has no such input.
std::string_view input_name(const Graph& graph, std::size_t i)
{
    return i < graph.input_ports.size() ? std::string_view(graph.input_ports[i].name) : std::string_view();
}

// Outputs behind the logits.
std::size_t memories(const Graph& graph) { return graph.outputs.empty() ? 0 : graph.outputs.size() - 1; }

bool has_input(const Graph& graph, std::string_view name)
{
    return std::ranges::any_of(graph.input_ports, [&](const Port& port) { return port.name == name; });
}

std::int64_t size_of_port(const Call& call, const Port& port, std::size_t axis)
{
    const auto* size = axis < port.shape.size() ? std::get_if<std::int64_t>(&port.shape[axis]) : nullptr;
    call.check(size && *size > 0, "the subgraph's ", port.name, " has no known size in axis ", axis);
    return *size;
}

class SubgraphDecoder : public Decoder {
public:
    SubgraphDecoder(Call& call, const Prompt& prompt) : call_(call), prompt_(prompt), op_(call) {}

protected:
    std::int64_t rows() const { return prompt_.batch * prompt_.beams; }

    // Of the last position.
    TokenScores scores_of(const Value& logits) const
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

    // Rows of `axis` as the sequences took each other's places.
    Value moved(const Value& past, std::int64_t axis, std::span<const std::int64_t> parents) const
    {
        bool stays = static_cast<std::int64_t>(parents.size()) == past.shape()[static_cast<std::size_t>(axis)];
        for (std::size_t i = 0; i < parents.size(); ++i)
            stays = stays && parents[i] == static_cast<std::int64_t>(i);
        return stays ? past : op_("Gather", {past, Value::ints(parents)}, {{"axis", axis}});
    }

    // What subgraphs with one buffer for past and present ask for beside it. Beams have taken each other's places in
    // it, so all find themselves where they are.
    Value extra(std::string_view name, std::int64_t past_length) const
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

    Call& call_;
    const Prompt prompt_;
    const Compose op_;
};

// input_ids, position_ids, attention_mask, past_0, ... to logits, present_0, ...
class LikeGpt final : public SubgraphDecoder {
public:
    LikeGpt(Call& call, const Prompt& prompt)
        : SubgraphDecoder(call, prompt), decoder_(subgraph(call, "decoder")),
          start_(call.has_attribute("init_decoder") ? subgraph(call, "init_decoder") : decoder_),
          layers_(memories(decoder_))
    {
        for (const Graph* graph : {&decoder_, &start_}) {
            call.check(graph->outputs.size() == layers_ + 1 && layers_ > 0 && graph->inputs.size() >= layers_ + 3 &&
                           input_name(*graph, 0) == "input_ids" && input_name(*graph, 1) == "position_ids" &&
                           input_name(*graph, 2) == "attention_mask" && input_name(*graph, 3) == "past_0",
                       "the decoder has not the inputs input_ids, position_ids, attention_mask, past_0, ... and the "
                       "outputs logits, present_0, ...");
        }
        ids_ = TokenMatrix::of(call, prompt.ids);
        TokenMatrix mask = ids_;
        for (Token& element : mask.elements)
            element = element != prompt.pad;
        counted_ = mask.repeated(prompt.beams);
        if (call.has(prompt.mask)) {
            mask = TokenMatrix::of(call, prompt.mask);
            call.check(mask.rows == ids_.rows && mask.columns == ids_.columns, "attention_mask has shape ",
                       to_string(call.shape(prompt.mask)), ", input_ids ", to_string(call.shape(prompt.ids)));
        }
        ids_ = ids_.repeated(prompt.beams);
        mask_ = mask.repeated(prompt.beams);
    }

    std::vector<Sequence> beginnings() const override
    {
        std::vector<Sequence> result;
        TokenMatrix ids = ids_;
        for (std::int64_t i = 0; i < ids.rows; ++i)
            result.emplace_back(ids.row(i).begin(), ids.row(i).end());
        return result;
    }

    TokenScores first() override
    {
        TokenMatrix positions = counted_;
        for (std::int64_t i = 0; i < positions.rows; ++i) {
            Token next = 0;
            for (Token& element : positions.row(i))
                element = element ? next++ : 0;
            next_positions_.push_back(next);
        }
        const Port& past = start_.input_ports[3];
        const Dims shape{2, rows(), size_of_port(call_, past, 2), is_shared(start_) ? prompt_.most : 0,
                         size_of_port(call_, past, 4)};
        past_.assign(layers_, Value::zeros(past.type, shape));
        return step(start_, ids_, positions);
    }

    TokenScores next(std::span<const Sequence> sequences, std::span<const std::int64_t> parents) override
    {
        for (Value& past : past_)
            past = moved(past, 1, parents);
        std::vector<Token> tokens;
        for (const Sequence& sequence : sequences)
            tokens.push_back(sequence.back());
        TokenMatrix mask{mask_.rows, mask_.columns + 1, {}};
        for (std::int64_t i = 0; i < mask_.rows; ++i) {
            mask.elements.insert(mask.elements.end(), mask_.row(i).begin(), mask_.row(i).end());
            mask.elements.push_back(1);
        }
        mask_ = std::move(mask);
        const TokenMatrix positions = TokenMatrix::column(next_positions_);
        for (Token& position : next_positions_)
            ++position;
        return step(decoder_, TokenMatrix::column(std::move(tokens)), positions);
    }

private:
    static bool is_shared(const Graph& graph) { return has_input(graph, "past_sequence_length"); }

    TokenScores step(const Graph& graph, const TokenMatrix& ids, const TokenMatrix& positions)
    {
        const auto typed = [&](const TokenMatrix& matrix, std::size_t i) {
            return matrix.value(graph.input_ports[i].type);
        };
        Values arguments{typed(ids, 0), typed(positions, 1), typed(mask_, 2)};
        arguments.insert(arguments.end(), past_.begin(), past_.end());
        for (std::size_t i = arguments.size(); i < graph.inputs.size(); ++i)
            arguments.push_back(extra(input_name(graph, i), mask_.columns - ids.columns));
        const Values results = call_.evaluate(graph, arguments);
        past_.assign(results.begin() + 1, results.end());
        return scores_of(results[0]);
    }

    const Graph &decoder_, &start_;
    std::size_t layers_;
    TokenMatrix ids_, mask_, counted_;          // `counted_`: what is no padding, which positions count
    std::vector<Token> next_positions_;
    Values past_;
};

// An encoder of encoder_input_ids, encoder_attention_mask: to the keys and values of cross attention alone; or of
// decoder_input_ids too, to logits, encoder_hidden_states, self attention and cross attention of the first step. A
// decoder of input_ids, encoder_attention_mask, perhaps encoder_hidden_states, self and cross attention to logits and
// self attention. Sounds have no mask, and their encoder takes decoder_input_ids, of which there may be several.
class LikeT5 final : public SubgraphDecoder {
public:
    LikeT5(Call& call, const Prompt& prompt)
        : SubgraphDecoder(call, prompt), encoder_(subgraph(call, "encoder")), decoder_(subgraph(call, "decoder")),
          starts_(encoder_.inputs.size() == (prompt.audio ? 2 : 3)),
          with_states_(has_input(decoder_, "encoder_hidden_states"))
    {
        const std::size_t first = (prompt.audio ? 1 : 2) + (with_states_ ? 1 : 0), own = memories(decoder_);
        call.check(own > 0 && own % 2 == 0 && decoder_.inputs.size() >= first + 2 * own &&
                       input_name(decoder_, 0) == "input_ids" &&
                       (prompt.audio ? starts_ : input_name(decoder_, 1) == "encoder_attention_mask" &&
                                                     (starts_ || (encoder_.inputs.size() == 2 && !with_states_))) &&
                       encoder_.outputs.size() == (starts_ ? 2 + 2 * own : own),
                   "the encoder and the decoder do not fit each other");
        if (call.has(prompt.beginning)) {
            start_ = TokenMatrix::of(call, prompt.beginning);
            call.check(start_.rows == prompt.batch && start_.columns > 0, "decoder_input_ids have shape ",
                       to_string(call.shape(prompt.beginning)), ", expected [", prompt.batch, ", length]");
        } else {
            call.check(prompt.start >= 0, "decoder_start_token_id is ", prompt.start);
            start_ = TokenMatrix::column(std::vector<Token>(static_cast<std::size_t>(prompt.batch), prompt.start));
        }
        const auto& ids = decoder_.input_ports[0].shape;
        const auto* length = ids.size() == 2 ? std::get_if<std::int64_t>(&ids[1]) : nullptr;
        whole_ = !length || *length != 1;
    }

    std::vector<Sequence> beginnings() const override
    {
        std::vector<Sequence> result;
        TokenMatrix start = start_;
        for (std::int64_t i = 0; i < rows(); ++i) {
            const auto row = start.row(i / prompt_.beams);
            result.emplace_back(row.begin(), row.end());
        }
        return result;
    }

    TokenScores first() override
    {
        Values arguments{call_.input(prompt_.ids)};
        if (!prompt_.audio) {
            TokenMatrix ids = TokenMatrix::of(call_, prompt_.ids), mask = mask_of(ids);
            arguments = {ids.value(), mask.value()};
            fixed_ = {mask.repeated(prompt_.beams).value()};
        }
        if (starts_)
            arguments.push_back(start_.value());
        Values results = call_.evaluate(encoder_, arguments);
        const std::size_t own = memories(decoder_), before = starts_ ? 2 : 0;
        if (starts_ && with_states_)
            fixed_.push_back(spread(results[1]));
        if (starts_)
            for (std::size_t i = 0; i < own; ++i)
                past_.push_back(buffered(spread(results[before + i])));
        for (std::size_t i = results.size() - own; i < results.size(); ++i)
            cross_.push_back(spread(results[i]));
        if (starts_) {
            length_ = start_.columns;
            return scores_of(results[0]);
        }
        const Dims shape = cross_[0].shape();
        call_.check(shape.size() == 4, "cross attention has shape ", to_string(shape),
                    ", expected [batch, heads, length, size]");
        const std::int64_t room = is_shared() ? prompt_.most : 0;
        past_.assign(own, Value::zeros(cross_[0].type(), {shape[0], shape[1], room, shape[3]}));
        return step(beginnings());
    }

    TokenScores next(std::span<const Sequence> sequences, std::span<const std::int64_t> parents) override
    {
        for (Value& past : past_)
            past = moved(past, 0, parents);
        return step(sequences);
    }

private:
    bool is_shared() const { return has_input(decoder_, "past_sequence_length"); }

    TokenMatrix mask_of(const TokenMatrix& ids) const
    {
        TokenMatrix mask = ids;
        if (call_.has(prompt_.mask)) {
            mask = TokenMatrix::of(call_, prompt_.mask);
            call_.check(mask.rows == ids.rows && mask.columns == ids.columns, "attention_mask has shape ",
                        to_string(call_.shape(prompt_.mask)), ", input_ids ", to_string(call_.shape(prompt_.ids)));
            return mask;
        }
        for (std::int64_t i = 0; i < mask.rows; ++i) {      // padding is in front: a last token may look like it
            bool begun = false;
            for (Token& element : mask.row(i))
                element = begun = begun || element != prompt_.pad;
        }
        return mask;
    }

    // Every sample of axis 0 for each of its beams.
    Value spread(const Value& x) const
    {
        if (prompt_.beams == 1)
            return x;
        std::vector<std::int64_t> from;
        for (std::int64_t i = 0; i < rows(); ++i)
            from.push_back(i / prompt_.beams);
        return moved(x, 0, from);
    }

    // With room for all that is to come, where past and present share their memory.
    Value buffered(const Value& x) const
    {
        if (!is_shared())
            return x;
        const std::int64_t room = prompt_.most - x.shape()[2];
        const std::array<std::int64_t, 8> borders{0, 0, 0, 0, 0, 0, room, 0};
        return op_("Pad", {x, Value::ints(borders)});
    }

    TokenScores step(std::span<const Sequence> sequences)
    {
        TokenMatrix ids{rows(), whole_ ? static_cast<std::int64_t>(sequences[0].size()) : 1, {}};
        for (const Sequence& sequence : sequences)
            ids.elements.insert(ids.elements.end(), sequence.end() - ids.columns, sequence.end());
        Values arguments{ids.value()};
        for (const Values* part : {&fixed_, &past_, &cross_})
            arguments.insert(arguments.end(), part->begin(), part->end());
        for (std::size_t i = arguments.size(); i < decoder_.inputs.size(); ++i)
            arguments.push_back(extra(input_name(decoder_, i), length_));
        const Values results = call_.evaluate(decoder_, arguments);
        past_.assign(results.begin() + 1, results.end());
        ++length_;
        return scores_of(results[0]);
    }

    const Graph &encoder_, &decoder_;
    bool starts_, with_states_, whole_ = false;    // the decoder takes whole sequences
    TokenMatrix start_;                            // what samples begin with
    std::int64_t length_ = 0;                      // of what is remembered
    Values fixed_, past_, cross_;
};

}  // namespace

std::unique_ptr<Decoder> decoder_of(Call& call, const Prompt& prompt)
{
    const std::int64_t type = call.integer_attribute("model_type", 0);
    if (type == 0)
        return std::make_unique<LikeGpt>(call, prompt);
    call.check(type == (prompt.audio ? 2 : 1), "model_type is ", type, ", expected 0 (like GPT-2), 1 (like T5) or, of "
               "beam searches, 2 (Whisper)");
    return std::make_unique<LikeT5>(call, prompt);
}

}  // namespace clprim::onnx
