// Decoders like GPT-2 of com.microsoft's searches: one subgraph, and perhaps one for the first step.
#include <algorithm>

#include "onnx/ops/subgraph_decoder.hpp"

namespace clprim::onnx {

namespace {

std::int64_t size_of_port(const Call& call, const Port& port, std::size_t axis)
{
    const auto* size = axis < port.shape.size() ? std::get_if<std::int64_t>(&port.shape[axis]) : nullptr;
    call.check(size && *size > 0, "the subgraph's ", port.name, " has no known size in axis ", axis);
    return *size;
}

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

}  // namespace

std::unique_ptr<Decoder> gpt_decoder(Call& call, const Prompt& prompt)
{
    return std::make_unique<LikeGpt>(call, prompt);
}

}  // namespace clprim::onnx
