// Layers of transformers and recurrent networks as ONNX operators.
#include <cmath>
#include <limits>

#include <clprim/sequence_layers.hpp>

#include "onnx/written_operator.hpp"

namespace clprim::onnx {
namespace {

std::string transposed(GraphWriter& graph, const std::string& x, const Ints& axes, const std::string& output = {})
{
    return graph.node("Transpose", {x}, {{"perm", axes}}, output);
}

// The last two of `rank` axes swapped.
std::string turned(GraphWriter& graph, const std::string& x, std::size_t rank)
{
    Ints axes(rank);
    for (std::size_t i = 0; i < rank; ++i)
        axes[i] = static_cast<std::int64_t>(i);
    std::swap(axes[rank - 2], axes[rank - 1]);
    return transposed(graph, x, axes);
}

void linear(GraphWriter& graph, const Written& op)
{
    const auto c = config_of<LinearConfig>(op);
    activated(graph, c.activation, op, [&](const std::string& y) {
        const Names operands{op.inputs[0], turned(graph, op.parameters[0], 2)};
        if (!c.bias)
            return void(graph.node("MatMul", operands, {}, y));
        graph.node("Add", {graph.node("MatMul", operands), op.parameters[1]}, {}, y);
    });
}

void matmul(GraphWriter& graph, const Written& op)
{
    const auto c = config_of<MatMulConfig>(op);
    const auto operand = [&](std::size_t i, bool transpose) {
        return transpose ? turned(graph, op.inputs[i], op.specs[i].shape.size()) : op.inputs[i];
    };
    const Names operands{operand(0, c.transpose_a), operand(1, c.transpose_b)};
    if (c.scale == 1)
        return void(graph.node("MatMul", operands, {}, op.output));
    graph.node("Mul", {graph.node("MatMul", operands), graph.number(c.scale, op.result.dtype)}, {}, op.output);
}

void layer_norm(GraphWriter& graph, const Written& op)
{
    const auto c = config_of<LayerNormConfig>(op);
    if (!c.rms) {
        Names inputs{op.inputs[0]};
        inputs.insert(inputs.end(), op.parameters.begin(), op.parameters.end());
        graph.node("LayerNormalization", inputs,
                   {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(c.eps)}}, op.output);
        return;
    }
    // RMSNormalization is younger than the models written here. Its statistics are of float32 at least.
    const DataType type = op.result.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    const bool wider = type != op.result.dtype;
    const std::string x = wider ? graph.cast(op.inputs[0], type) : op.inputs[0];
    const std::string mean = graph.node("ReduceMean", {graph.node("Mul", {x, x}), graph.ints({-1})},
                                        {{"keepdims", std::int64_t{1}}});
    const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.number(c.eps, type)})});
    const std::string y = graph.node("Div", {x, root});
    graph.node("Mul", {wider ? graph.cast(y, op.result.dtype) : y, op.parameters[0]}, {}, op.output);
}

void embedding(GraphWriter& graph, const Written& op)
{
    graph.node("Gather", {op.parameters[0], op.inputs[0]}, {}, op.output);
}

// [L, S] of 0 where a query sees a key and of -inf elsewhere.
std::string causal_mask(GraphWriter& graph, const Written& op, std::int64_t queries, std::int64_t keys)
{
    std::vector<float> hidden(static_cast<std::size_t>(queries * keys));
    for (std::int64_t i = 0; i < queries; ++i)
        for (std::int64_t j = i + 1; j < keys; ++j)
            hidden[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    const std::string name = graph.fresh(op.name);
    graph.initializer(name, DataType::float32, {queries, keys}, std::as_bytes(std::span(hidden)));
    return op.result.dtype == DataType::float32 ? name : graph.cast(name, op.result.dtype);
}

void attention(GraphWriter& graph, const Written& op)
{
    const auto c = config_of<AttentionConfig>(op);
    const auto heads = [&](std::size_t i, const Ints& axes) {
        const std::string cut = graph.node("Reshape", {op.inputs[i], graph.ints({0, 0, c.heads, -1})});
        return transposed(graph, cut, axes);
    };
    const std::int64_t features = op.specs[0].shape[2];
    const double scale = c.scale != 0 ? c.scale
                                      : 1 / std::sqrt(static_cast<double>(features) / static_cast<double>(c.heads));
    std::string scores = graph.node("MatMul", {heads(0, {0, 2, 1, 3}), heads(1, {0, 2, 3, 1})});
    scores = graph.node("Mul", {scores, graph.number(scale, op.result.dtype)});
    if (c.causal)
        scores = graph.node("Add", {scores, causal_mask(graph, op, op.specs[0].shape[1], op.specs[1].shape[1])});
    if (op.inputs.size() == 4)
        scores = graph.node("Add", {scores, op.inputs[3]});
    const std::string probabilities = graph.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string y = graph.node("MatMul", {probabilities, heads(2, {0, 2, 1, 3})});
    graph.node("Reshape", {transposed(graph, y, {0, 2, 1, 3}), graph.ints({0, 0, -1})}, {}, op.output);
}

void permute(GraphWriter& graph, const Written& op)
{
    transposed(graph, op.inputs[0], list(config_of<PermuteConfig>(op).dims), op.output);
}

// Gates along the first axis in ONNX's order, with an axis for the only direction before them.
std::string gates(GraphWriter& graph, const Names& parameters, const Ints& order, std::int64_t hidden)
{
    Names parts;
    for (const std::string& parameter : parameters)
        for (const std::int64_t gate : order)
            parts.push_back(graph.node("Slice", {parameter, graph.ints({gate * hidden}),
                                                 graph.ints({(gate + 1) * hidden}), graph.ints({0})}));
    const std::string all = graph.node("Concat", parts, {{"axis", std::int64_t{0}}});
    return graph.node("Unsqueeze", {all, graph.ints({0})});
}

// `order`: PyTorch's gates as ONNX counts them.
void recurrent(GraphWriter& graph, const Written& op, const char* type, const Ints& order, std::int64_t hidden)
{
    const Names inputs{transposed(graph, op.inputs[0], {1, 0, 2}), gates(graph, {op.parameters[0]}, order, hidden),
                       gates(graph, {op.parameters[1]}, order, hidden),
                       gates(graph, {op.parameters[2], op.parameters[3]}, order, hidden)};
    WrittenAttributes attributes{{"hidden_size", hidden}};
    if (std::string_view(type) == "GRU")
        attributes.push_back({"linear_before_reset", std::int64_t{1}});   // as PyTorch adds the recurrent bias
    const std::string y = graph.node("Squeeze", {graph.node(type, inputs, attributes), graph.ints({1})});
    transposed(graph, y, {1, 0, 2}, op.output);
}

void lstm(GraphWriter& graph, const Written& op)
{
    recurrent(graph, op, "LSTM", {0, 3, 1, 2}, config_of<LSTMConfig>(op).hidden);   // input, output, forget, cell
}

void gru(GraphWriter& graph, const Written& op)
{
    recurrent(graph, op, "GRU", {1, 0, 2}, config_of<GRUConfig>(op).hidden);        // update, reset, new
}

}  // namespace

const std::map<std::string, WriteOperator>& written_sequence_operators()
{
    static const std::map<std::string, WriteOperator> rows{
        {"Linear", linear},       {"MatMul", matmul},   {"LayerNorm", layer_norm}, {"Embedding", embedding},
        {"Attention", attention}, {"Permute", permute}, {"LSTM", lstm},            {"GRU", gru}};
    return rows;
}

}  // namespace clprim::onnx
