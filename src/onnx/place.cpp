// Concatenations of channels without copies: their parts are written where the whole will be. What is planned here
// rests on the sizes that weights tell; a run whose sizes differ copies as ever (Call::placed, ops/concatenate.cpp).
#include <algorithm>
#include <set>

#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

bool over_channels(const Node& node)
{
    const auto* axis = find_attribute<std::int64_t>(node, "axis");
    return axis && *axis == 1;
}

class Placing {
public:
    explicit Placing(Graph& graph) : graph_(graph), rewriter_(graph)
    {
        for (std::size_t i = 0; i < graph.inputs.size() && i < graph.input_ports.size(); ++i)
            if (const auto& shape = graph.input_ports[i].shape; shape.size() > 1)
                if (const auto* size = std::get_if<std::int64_t>(&shape[1]); size && *size > 0)
                    channels_[graph.inputs[i]] = *size;
        for (const Node& node : graph.nodes)
            find_channels(node);
    }

    // The last concatenation comes first: it may hold those before it.
    void run()
    {
        for (std::size_t i = graph_.nodes.size(); i-- > 0;)
            if (Node& node = graph_.nodes[i]; is_concatenation(node))
                place_parts(node);
    }

private:
    static bool is_concatenation(const Node& node)
    {
        return node.domain.empty() && node.op_type == "Concat" && over_channels(node) && node.inputs.size() > 1;
    }

    std::int64_t channels(int slot) const
    {
        const auto found = channels_.find(slot);
        return found == channels_.end() ? 0 : found->second;
    }

    std::int64_t size_of_constant(int slot, std::size_t axis) const
    {
        const Value* value = rewriter_.constant(slot);
        return value && value->is_tensor() && value->dim() > axis ? value->shape()[axis] : 0;
    }

    // What is known of a node's outputs; what is not has no entry. A wrong guess costs a copy when the model runs.
    void find_channels(const Node& node)
    {
        static const std::set<std::string_view> keep{
            "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "HardSigmoid", "Clip", "Elu", "Mish", "PRelu",
            "Softplus", "Add", "Sub", "Mul", "Div", "MaxPool", "AveragePool", "BatchNormalization",
            "InstanceNormalization", "Resize", "Upsample", "Identity", "Dropout", "Elementwise", "ChannelAffine",
            "Gelu", "LRN"};
        std::int64_t result = 0;
        if (node.op_type == "Conv" || node.op_type == "FusedConv") {
            result = node.inputs.size() > 1 ? size_of_constant(node.inputs[1], 0) : 0;
        } else if (node.op_type == "ConvTranspose") {
            const auto* groups = find_attribute<std::int64_t>(node, "group");
            result = node.inputs.size() > 1 ? size_of_constant(node.inputs[1], 1) * (groups ? *groups : 1) : 0;
        } else if (is_concatenation(node)) {
            for (const int slot : node.inputs) {
                if (channels(slot) == 0)
                    return;
                result += channels(slot);
            }
        } else if (node.op_type == "Split" && over_channels(node)) {
            return find_pieces(node);
        } else if (keep.contains(node.op_type)) {
            for (const int slot : node.inputs)
                result = std::max(result, channels(slot));
        }
        if (result > 0 && !node.outputs.empty() && node.outputs[0] != absent)
            channels_[node.outputs[0]] = result;
    }

    void find_pieces(const Node& node)
    {
        std::vector<std::int64_t> lengths;
        const std::int64_t whole = channels(node.inputs[0]), count = static_cast<std::int64_t>(node.outputs.size());
        if (const auto* given = find_attribute<std::vector<std::int64_t>>(node, "split"))
            lengths = *given;
        else if (const Value* value = node.inputs.size() > 1 ? rewriter_.constant(node.inputs[1]) : nullptr;
                 value && value->is_tensor() && value->type() == ElementType::int64 && value->on_host())
            lengths.assign(reinterpret_cast<const std::int64_t*>(value->host_bytes()),
                           reinterpret_cast<const std::int64_t*>(value->host_bytes()) + value->numel());
        else if (node.inputs.size() < 2 && whole % count == 0)
            lengths.assign(node.outputs.size(), whole / count);
        for (std::size_t i = 0; i < node.outputs.size() && i < lengths.size(); ++i)
            if (node.outputs[i] != absent && lengths[i] > 0)
                channels_[node.outputs[i]] = lengths[i];
    }

    // A node that writes where it is told to.
    Node* placeable(int slot)
    {
        static const std::set<std::string_view> names{"Conv",        "FusedConv",   "ConvTranspose", "MaxPool",
                                                      "AveragePool", "Elementwise", "ChannelAffine", "Concat",
                                                      "Add",         "Sub",         "Mul",           "Div",
                                                      "Relu",        "Sigmoid",     "Tanh",          "LeakyRelu"};
        if (slot == absent || rewriter_.exposed(slot))
            return nullptr;
        const Node* found = rewriter_.writer(slot);
        Node* writer = found ? &rewriter_.node(rewriter_.position(*found)) : nullptr;
        const bool fits = writer && writer->row && names.contains(writer->op_type) && writer->outputs[0] == slot &&
                          writer->place.buffer == absent && (writer->op_type != "Concat" || is_concatenation(*writer));
        return fits ? writer : nullptr;
    }

    // How many inputs from `first` on are all the pieces of a split, in order; 0 if they are not.
    std::size_t pieces_from(const Node& node, std::size_t first) const
    {
        const Node* split = rewriter_.writer(node.inputs[first]);
        if (!split || split->op_type != "Split" || !split->domain.empty() || !over_channels(*split) ||
            first + split->outputs.size() > node.inputs.size())
            return 0;
        const bool all = std::equal(split->outputs.begin(), split->outputs.end(),
                                    node.inputs.begin() + static_cast<std::ptrdiff_t>(first));
        return all ? split->outputs.size() : 0;
    }

    void place_parts(Node& node)
    {
        if (channels(node.outputs[0]) == 0 || std::ranges::find(node.inputs, absent) != node.inputs.end())
            return;
        std::vector<std::pair<Node*, std::int64_t>> parts;     // who writes, and from which channel on
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < node.inputs.size(); begin += channels(node.inputs[i]), ++i) {
            int slot = node.inputs[i];
            if (pieces_from(node, i) > 0)
                slot = rewriter_.writer(slot)->inputs[0];
            if (Node* writer = placeable(slot); writer && !contains(parts, writer))
                parts.emplace_back(writer, begin);
        }
        if (parts.empty())
            return;
        if (node.place.buffer == absent)
            node.place = {graph_.add_slot(""), 0, channels(node.outputs[0]), channels(node.outputs[0])};
        for (const auto& [writer, at] : parts)
            writer->place = {node.place.buffer, node.place.begin + at, channels(writer->outputs[0]), node.place.total};
    }

    static bool contains(const std::vector<std::pair<Node*, std::int64_t>>& parts, const Node* writer)
    {
        return std::ranges::any_of(parts, [&](const auto& part) { return part.first == writer; });
    }

    Graph& graph_;
    Rewriter rewriter_;
    std::map<int, std::int64_t> channels_;
};

}  // namespace

void place_concatenations(Graph& graph) { Placing(graph).run(); }

}  // namespace clprim::onnx
