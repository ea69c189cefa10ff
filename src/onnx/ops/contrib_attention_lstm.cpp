// com.microsoft's AttnLSTM: an LSTM that reads, beside its inputs, what an attention over a memory (Bahdanau's) gave
// for its last output.
#include <array>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"

namespace clprim::onnx {

namespace {

Value axes(std::int64_t axis) { return Value::ints(std::array{axis}); }

// One direction of the layer.
class AttentionLstm {
public:
    AttentionLstm(const Call& call, std::int64_t direction, bool reversed)
        : op_(call), call_(call), direction_(direction), reversed_(reversed)
    {
        const Dims& x = call.shape(0);
        memory_ = call.input(11);
        call.check(x.size() == 3 && x[0] > 0 && memory_.dim() == 3 && memory_.shape()[0] == x[1], "x ", to_string(x),
                   " and the memory ", to_string(memory_.shape()), " do not fit");
        const std::int64_t hidden = call.attribute<std::int64_t>("hidden_size");
        call.check(call.input(2).dim() == 3 && call.shape(2)[2] == hidden, "hidden_size is ", hidden, ", and weights ",
                   to_string(call.shape(2)), " are for another");
        keys_ = op_("MatMul", {memory_, at_direction(9)});
        weights_ = at_direction(10);
        if (call.has(12)) {      // what lies beyond a memory's end gets no weight
            const Value places = op_("Range", {op_.number(0, ElementType::int32),
                                               op_.number(double(memory_.shape()[1]), ElementType::int32),
                                               op_.number(1, ElementType::int32)});
            const Value inside = op_("Less", {places, op_("Unsqueeze", {call.input(12), axes(1)})});
            const ElementType type = memory_.type();
            bias_ = op_("Where", {inside, op_.number(0, type), op_.number(-INFINITY, type)});
        }
    }

    // Y [T, 1, N, H] and the last states [1, N, H].
    std::array<Value, 3> run()
    {
        const std::int64_t steps = call_.shape(0)[0], batch = call_.shape(0)[1];
        const Value lengths = call_.has(4) ? op_.cast(call_.input(4), ElementType::int64) : Value();
        const Value x = in_order(call_.input(0), lengths);
        Value h = state(5), c = state(6), last_h, last_c, attention;
        std::vector<Value> outputs;
        for (std::int64_t t = 0; t < steps; ++t) {
            const Value row = op_("Slice", {x, axes(t), axes(t + 1), axes(0)});
            if (attention.is_none())
                attention = zeros({1, batch, call_.has(13) ? call_.shape(13).back() : memory_.shape()[2]});
            const auto next = run_operator(call_, "LSTM",
                                           {op_("Concat", {row, attention}, {{"axis", std::int64_t{2}}}), part(1),
                                            part(2), part(3), Value(), h, c, part(7)},
                                           attributes(), 3);
            h = next[1];
            c = next[2];
            attention = attend(op_("Squeeze", {h, axes(0)}));
            Value y = next[0];
            if (lengths.is_none()) {
                last_h = h;
                last_c = c;
            } else {                                   // sequences that have ended keep their states
                const Value goes_on = op_("Unsqueeze", {op_("Less", {Value::scalar(t), lengths}), axes(1)});
                const Value none = op_.number(0, h.type());
                y = op_("Where", {goes_on, y, none});
                last_h = op_("Where", {goes_on, h, last_h.is_none() ? none : last_h});
                last_c = op_("Where", {goes_on, c, last_c.is_none() ? none : last_c});
            }
            outputs.push_back(y);
        }
        const Value all = op_("Concat", outputs, {{"axis", std::int64_t{0}}});
        // In the order of time again: [T, 1, N, H] by way of [T, N, H].
        const Value flat = op_("Squeeze", {all, axes(1)});
        return {op_("Unsqueeze", {in_order(flat, lengths), axes(1)}), last_h, last_c};
    }

private:
    Value zeros(const Dims& shape) const
    {
        return op_("Expand", {op_.number(0, call_.type(0)), Value::ints(std::span(shape.data(), shape.size()))});
    }
    Value part(std::size_t input) const              // of the direction, with the first axis
    {
        return call_.has(input)
                   ? op_("Slice", {call_.input(input), axes(direction_), axes(direction_ + 1), axes(0)})
                   : Value();
    }
    Value at_direction(std::size_t input) const
    {
        call_.check(call_.has(input), "input ", input, " is missing");
        return op_("Squeeze", {part(input), axes(0)});
    }
    Value state(std::size_t input) const
    {
        return call_.has(input) ? part(input)
                                : zeros({1, call_.shape(0)[1], call_.attribute<std::int64_t>("hidden_size")});
    }
    // [T, N, ...] the other way round in time where the direction is, each sequence by its length.
    Value in_order(const Value& x, const Value& lengths) const
    {
        if (!reversed_)
            return x;
        const Value all = op_("Expand", {Value::scalar(x.shape()[0]), axes(x.shape()[1])});
        return op_("ReverseSequence", {x, lengths.is_none() ? all : lengths},
                   {{"time_axis", std::int64_t{0}}, {"batch_axis", std::int64_t{1}}});
    }
    // query [N, H]: what the cell reads next, [1, N, A].
    Value attend(const Value& query) const
    {
        const Value asked = op_("Unsqueeze", {op_("MatMul", {query, at_direction(8)}), axes(1)});
        Value scores = op_("ReduceSum", {op_("Mul", {op_("Tanh", {op_("Add", {keys_, asked})}), weights_}), axes(2)},
                           {{"keepdims", std::int64_t{0}}});
        if (!bias_.is_none())
            scores = op_("Add", {scores, bias_});
        const Value shares = op_("Softmax", {scores}, {{"axis", std::int64_t{1}}});
        const Value context = op_("Squeeze", {op_("MatMul", {op_("Unsqueeze", {shares, axes(1)}), memory_}), axes(1)});
        if (!call_.has(13))
            return op_("Unsqueeze", {context, axes(0)});
        const Value both = op_("Concat", {query, context}, {{"axis", std::int64_t{1}}});
        return op_("Unsqueeze", {op_("MatMul", {both, at_direction(13)}), axes(0)});
    }
    Attributes attributes() const
    {
        Attributes result = op_.attributes({"hidden_size", "clip", "input_forget", "activation_alpha",
                                            "activation_beta"});
        const auto names = call_.attribute<std::vector<std::string>>("activations", std::vector<std::string>{});
        const auto begin = static_cast<std::size_t>(3 * direction_);
        if (names.size() >= begin + 3)
            result["activations"] = std::vector<std::string>(names.begin() + 3 * direction_,
                                                             names.begin() + 3 * direction_ + 3);
        return result;
    }

    const Compose op_;
    const Call& call_;
    const std::int64_t direction_;
    const bool reversed_;
    Value memory_, keys_, weights_, bias_;
};

void attention_lstm(Call& call)
{
    const Compose op(call);
    const std::string direction = call.string_attribute("direction", "forward");
    const bool both = direction == "bidirectional";
    call.check(both || direction == "forward" || direction == "reverse", "direction is '", direction, "'");
    call.check(!both || (!call.has_attribute("activation_alpha") && !call.has_attribute("activation_beta")),
               "numbers of activations are not supported for two directions");
    auto results = AttentionLstm(call, 0, direction == "reverse").run();
    if (both) {
        const auto back = AttentionLstm(call, 1, true).run();
        for (std::size_t i = 0; i < 3; ++i)
            results[i] = op("Concat", {results[i], back[i]}, {{"axis", std::int64_t{i == 0}}});
    }
    for (std::size_t i = 0; i < 3; ++i)
        call.output(i, results[i]);
}

const OperatorRow contrib_attention_lstm_rows[] = {
    {"AttnLSTM", 1, attention_lstm, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_attention_lstm_operators() { return contrib_attention_lstm_rows; }

}  // namespace clprim::onnx
