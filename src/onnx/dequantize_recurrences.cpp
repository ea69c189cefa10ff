// LSTMs over weights of integers that never change. Where a kernel multiplies bytes they stay what they are, with a
// scale and a zero point for each column. Elsewhere they become LSTMs over the numbers that these stand for: computed
// here, once, and laid out by the operator as others' weights are. The recurrent ones stay beside them as bytes, which
// steps read in less time.
#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "kernels/recurrent/recurrent.hpp"
#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

enum Input : std::size_t {
    weights = 1,
    recurrent = 2,
    peepholes = 7,
    weight_scale = 8,
    recurrent_scale = 10,
    last = 12
};

// Numbers of a constant on the host, one for all, for each direction, or for each column of each direction.
class Parameter {
public:
    template <class T>
    static std::optional<Parameter> of(const Value& value, std::int64_t directions, std::int64_t columns)
    {
        const auto* numbers = reinterpret_cast<const T*>(value.host_bytes());
        const std::int64_t count = value.numel();
        if (count != 1 && count != directions && count != directions * columns)
            return std::nullopt;
        Parameter result;
        result.numbers_.assign(numbers, numbers + count);
        result.directions_ = directions;
        return result;
    }

    float at(std::int64_t direction, std::int64_t column) const
    {
        const auto count = static_cast<std::int64_t>(numbers_.size()), columns = count / directions_;
        return numbers_[static_cast<std::size_t>(count == 1         ? 0
                                                 : columns == 1 ? direction
                                                                : direction * columns + column)];
    }

private:
    std::vector<float> numbers_;
    std::int64_t directions_ = 1;
};

const Value* host_constant(Rewriter& rewriter, const Node& node, std::size_t input)
{
    const bool given = input < node.inputs.size() && node.inputs[input] != absent;
    const Value* value = given ? rewriter.constant(node.inputs[input]) : nullptr;
    return value && value->is_tensor() && value->on_host() ? value : nullptr;
}

struct Dequantized {
    Value numbers;                       // none where only the bytes are read
    std::shared_ptr<const QuantizedMatrix> from;
};

// Only the bytes are read if `as_bytes`.
template <class T>
std::optional<Dequantized> dequantized(Rewriter& rewriter, const Node& node, std::size_t input,
                                       std::size_t scale_input, bool as_bytes)
{
    const Value &w = *host_constant(rewriter, node, input), *scales = host_constant(rewriter, node, scale_input);
    const Value* zeros = host_constant(rewriter, node, scale_input + 1);
    const bool has_zeros = scale_input + 1 < node.inputs.size() && node.inputs[scale_input + 1] != absent;
    if (!scales || scales->type() != ElementType::float32 || (has_zeros && (!zeros || zeros->type() != w.type())))
        return std::nullopt;
    const std::int64_t directions = w.shape()[0], rows = w.shape()[1], columns = w.shape()[2];
    const auto scale = Parameter::of<float>(*scales, directions, columns);
    const auto zero = has_zeros ? Parameter::of<T>(*zeros, directions, columns) : std::optional<Parameter>();
    if (!scale || (has_zeros && !zero))
        return std::nullopt;
    const auto spread = [&](const std::optional<Parameter>& parameter) {
        Value all = Value::zeros(ElementType::float32, {directions, columns});
        float* number = all.mutable_host<float>().data();
        for (std::int64_t d = 0; d < directions; ++d)
            for (std::int64_t column = 0; column < columns; ++column)
                *number++ = parameter ? parameter->at(d, column) : 0;
        return all;
    };
    if (as_bytes)
        return Dequantized{{}, std::make_shared<QuantizedMatrix>(QuantizedMatrix{{}, spread(scale), spread(zero)})};
    Value result = Value::zeros(ElementType::float32, {directions, columns, rows});
    const auto* from = reinterpret_cast<const T*>(w.host_bytes());
    float* to = result.mutable_host<float>().data();
    for (std::int64_t d = 0; d < directions; ++d)
        for (std::int64_t column = 0; column < columns; ++column)
            for (std::int64_t row = 0; row < rows; ++row)
                *to++ = (static_cast<float>(from[(d * rows + row) * columns + column]) -
                         (zero ? zero->at(d, column) : 0)) * scale->at(d, column);
    const QuantizedMatrix bytes{Value::copy_of(w.type(), w.shape(), w.host_bytes()), spread(scale), spread(zero)};
    return Dequantized{result, std::make_shared<QuantizedMatrix>(bytes)};
}

std::optional<Dequantized> dequantized(Rewriter& rewriter, const Node& node, std::size_t input,
                                       std::size_t scale_input, bool as_bytes)
{
    const Value* w = host_constant(rewriter, node, input);
    if (!w || w->dim() != 3 || w->numel() == 0)
        return std::nullopt;
    if (w->type() == ElementType::int8)
        return dequantized<std::int8_t>(rewriter, node, input, scale_input, as_bytes);
    if (w->type() == ElementType::uint8)
        return dequantized<std::uint8_t>(rewriter, node, input, scale_input, as_bytes);
    return std::nullopt;
}

// Whether the operator never asks for the numbers, whatever the inputs' sizes but for empty ones.
bool stays_bytes(Rewriter& rewriter, const Node& node, const Device& device)
{
    static const std::vector<std::string> usual{"sigmoid", "tanh", "tanh"};
    if (!multiplies_bytes(device) || attribute_of<std::int64_t>(node, "input_forget", 0) != 0 ||
        node.attributes.contains("clip") || (peepholes < node.inputs.size() && node.inputs[peepholes] != absent))
        return false;
    const auto names = attribute_of<std::vector<std::string>>(node, "activations", {});
    for (std::size_t i = 0; i < names.size(); ++i)
        if (!std::ranges::equal(names[i], usual[i % usual.size()], {},
                                [](unsigned char c) { return static_cast<char>(std::tolower(c)); }))
            return false;
    const auto fits = [&](std::size_t input) {
        const Value* w = host_constant(rewriter, node, input);
        return w && w->dim() == 3 && w->shape()[1] <= most_recurrent_bytes;
    };
    return fits(weights) && fits(recurrent);
}

}  // namespace

void dequantize_recurrences(Rewriter& rewriter, const Device& device)
{
    int opset = 22;                         // without others of the standard domain, LSTM's latest
    for (std::size_t i = 0; i < rewriter.size(); ++i)
        if (rewriter.node(i).domain.empty())
            opset = rewriter.node(i).opset;
    const OperatorRow* const lstm = find_operator("", "LSTM", opset);
    if (!lstm)
        return;
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        Node& node = rewriter.node(i);
        if (node.domain != "com.microsoft" || node.body || node.op_type != "DynamicQuantizeLSTM" ||
            node.inputs.size() > last)
            continue;
        const bool as_bytes = stays_bytes(rewriter, node, device);
        auto w = dequantized(rewriter, node, weights, weight_scale, as_bytes);
        auto r = dequantized(rewriter, node, recurrent, recurrent_scale, as_bytes);
        if (!w || !r)
            continue;
        if (as_bytes) {
            node.input_bytes = std::move(w->from);
            node.recurrent_bytes = std::move(r->from);
            continue;
        }
        Node plain = node;
        plain.domain.clear();
        plain.op_type = "LSTM";
        plain.opset = opset;
        plain.row = lstm;
        plain.inputs.resize(weight_scale);
        plain.inputs[weights] = rewriter.add_constant(std::move(w->numbers));
        plain.inputs[recurrent] = rewriter.add_constant(std::move(r->numbers));
        plain.input_bytes = std::move(w->from);
        plain.recurrent_bytes = std::move(r->from);
        rewriter.replace({i}, std::move(plain));
    }
    rewriter.finish();
}

}  // namespace clprim::onnx
