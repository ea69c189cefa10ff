// Encoders with decoders of com.microsoft's beam searches: like T5, and like Whisper, which hears.
#include <algorithm>

#include "onnx/ops/subgraph_decoder.hpp"

namespace clprim::onnx {

namespace {

// An encoder of encoder_input_ids, encoder_attention_mask: to the keys and values of cross attention alone; or of
// decoder_input_ids too, to logits, encoder_hidden_states, self attention and cross attention of the first step. A
// decoder of input_ids, encoder_attention_mask, perhaps encoder_hidden_states, self and cross attention to logits and
// self attention. Sounds have no mask, and their encoder takes decoder_input_ids, of which there may be several.
class LikeT5 final : public SubgraphDecoder {
public:
    LikeT5(Call& call, const Prompt& prompt)
        : SubgraphDecoder(call, prompt), encoder_(subgraph(call, "encoder")), decoder_(subgraph(call, "decoder")),
          starts_(encoder_.inputs.size() == (prompt.audio ? 2 : 3)),
          with_states_(has_input(decoder_, "encoder_hidden_states")),
          own_(prompt.crossed ? memories(decoder_) / 3 * 2 : memories(decoder_))
    {
        call.check(!prompt.crossed || memories(decoder_) % 3 == 0, "decoder_output_cross_qk is 1, but the decoder has ",
                   decoder_.outputs.size(), " outputs, expected logits and for each layer two of self attention and "
                   "one of cross attention");
        const std::size_t first = (prompt.audio ? 1 : 2) + (with_states_ ? 1 : 0), own = own_;
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
        const std::size_t own = own_, before = starts_ ? 2 : 0;
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
        const CrossSizes sizes = cross_sizes();
        const Dims shape = cross_[0].shape();
        const std::int64_t room = is_shared() ? prompt_.most : 0;
        past_.assign(own, Value::zeros(cross_[0].type(), {shape[0], sizes.heads, room, shape[3]}));
        return step(beginnings());
    }

    TokenScores next(std::span<const Sequence> sequences, std::span<const std::int64_t> parents) override
    {
        for (Value& past : past_)
            past = moved(past, 0, parents);
        return step(sequences);
    }

    std::span<const Value> crossed() const override { return crossed_; }

    CrossSizes cross_sizes() const override
    {
        const Dims shape = cross_[0].shape();
        call_.check(shape.size() == 4, "cross attention has shape ", to_string(shape),
                    ", expected [batch, heads, length, size]");
        return {static_cast<std::int64_t>(cross_.size()) / 2, shape[1], shape[2]};
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
        const auto behind = results.begin() + 1 + static_cast<std::ptrdiff_t>(own_);
        past_.assign(results.begin() + 1, behind);
        crossed_.assign(behind, results.end());
        ++length_;
        return scores_of(results[0]);
    }

    const Graph &encoder_, &decoder_;
    bool starts_, with_states_, whole_ = false;    // the decoder takes whole sequences
    std::size_t own_;                              // outputs of self attention, two for each layer
    TokenMatrix start_;                            // what samples begin with
    std::int64_t length_ = 0;                      // of what is remembered
    Values fixed_, past_, cross_, crossed_;
};

}  // namespace

std::unique_ptr<Decoder> encoder_decoder(Call& call, const Prompt& prompt)
{
    return std::make_unique<LikeT5>(call, prompt);
}

}  // namespace clprim::onnx
