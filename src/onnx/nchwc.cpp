// Models that ONNX Runtime saved at its highest optimisation level hold its blocked convolutions: channels in blocks of
// 8 or 16, whichever suits the processor that it ran on. Here they become ordinary ones again: weights are put back
// into order, tensors between them are plain ones whose channels are padded to whole blocks.
#include "onnx/nchwc.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <clprim/error.hpp>

namespace clprim::onnx {

namespace {

constexpr const char* blocked_domain = "com.microsoft.nchwc";

// The file does not say how large blocks are. Blocks of 16 leave nothing but multiples of it.
std::int64_t block_of(const Graph& graph, const std::map<int, const Value*>& constants)
{
    for (const Node& node : graph.nodes)
        if (node.domain == blocked_domain && node.op_type == "Conv" && node.inputs.size() > 1)
            if (const auto w = constants.find(node.inputs[1]); w != constants.end() && w->second->shape()[0] % 16 != 0)
                return 8;
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
    return 16;
#endif
}

// Weights [O, I, H, W] out of blocks of output channels, and of input channels where there is one at least.
Value in_order(const Value& blocked, std::int64_t block)
{
    const Dims& shape = blocked.shape();
    require(blocked.type() == ElementType::float32 && shape.size() == 4 && shape[0] % block == 0 && blocked.on_host(),
            "weights ", to_string(shape), " are not in blocks of ", block);
    const std::int64_t in = shape[1], pixels = shape[2] * shape[3], in_block = in >= block ? block : 1;
    require(in % in_block == 0, "weights ", to_string(shape), " are not in blocks of ", block);
    Value result = Value::zeros(ElementType::float32, shape);
    const auto* from = reinterpret_cast<const float*>(blocked.host_bytes());
    float* to = result.mutable_host<float>().data();
    for (std::int64_t o = 0; o < shape[0]; ++o)
        for (std::int64_t i = 0; i < in; ++i)
            for (std::int64_t p = 0; p < pixels; ++p)
                to[(o * in + i) * pixels + p] =
                    from[((o / block * (in / in_block) + i / in_block) * pixels + p) * in_block * block +
                         i % in_block * block + o % block];
    return result;
}

class Lowering {
public:
    explicit Lowering(Graph& graph) : graph_(graph)
    {
        for (const auto& [slot, value] : graph.constants)
            constants_[slot] = &value;
        block_ = block_of(graph, constants_);
    }

    void run()
    {
        std::vector<Node> nodes;
        for (Node& node : graph_.nodes)
            if (node.domain == blocked_domain)
                lower(node, nodes);
            else
                nodes.push_back(std::move(node));
        graph_.nodes = std::move(nodes);
        for (auto& constant : fresh_)
            graph_.constants.push_back(std::move(constant));
    }

private:
    int constant(const std::string& name, Value value)
    {
        const int slot = graph_.add_slot(name);
        fresh_.emplace_back(slot, std::move(value));
        return slot;
    }

    void lower(Node& node, std::vector<Node>& nodes)
    {
        const auto flag = [&](const char* name) {
            const auto found = node.attributes.find(name);
            return found != node.attributes.end() && std::get<std::int64_t>(found->second) != 0;
        };
        const bool channels_last = flag("channels_last");
        const auto become = [&](const char* domain, const char* type, int opset) {
            node.domain = domain;
            node.op_type = type;
            node.opset = opset;
        };
        if (node.op_type == "Conv") {
            const auto weights = constants_.find(node.inputs.at(1));
            require<NotSupported>(weights != constants_.end(), "com.microsoft.nchwc.Conv '", node.name,
                                  "': weights are not constant");
            node.inputs[1] = constant(node.name + ".weights", in_order(*weights->second, block_));
            become("com.microsoft", "FusedConv", 1);
        } else if (node.op_type == "ReorderInput") {
            if (channels_last) {
                const int turned = graph_.add_slot(node.name + ".turned");
                nodes.push_back(transposition(node.name, node.inputs.at(0), turned, {0, 3, 1, 2}));
                node.inputs[0] = turned;
            }
            node.attributes = {{"block", block_}};
            become("clprim", "PadChannels", 1);
        } else if (node.op_type == "ReorderOutput") {
            const std::int64_t channels = std::get<std::int64_t>(node.attributes.at("channels"));
            const int output = node.outputs.at(0);
            node.inputs = {node.inputs.at(0), constant(node.name + ".begin", Value::ints(std::array{std::int64_t{0}})),
                           constant(node.name + ".end", Value::ints(std::array{channels})),
                           constant(node.name + ".axis", Value::ints(std::array{std::int64_t{1}}))};
            node.attributes.clear();
            become("", "Slice", 13);
            if (channels_last) {
                node.outputs[0] = graph_.add_slot(node.name + ".turned");
                nodes.push_back(node);
                nodes.push_back(transposition(node.name, node.outputs[0], output, {0, 2, 3, 1}));
                return;
            }
        } else if (node.op_type == "Upsample") {
            std::vector<float> scales;
            for (const std::int64_t scale : std::get<std::vector<std::int64_t>>(node.attributes.at("scales")))
                scales.push_back(static_cast<float>(scale));
            const Dims shape{static_cast<std::int64_t>(scales.size())};
            node.inputs = {node.inputs.at(0), absent,
                           constant(node.name + ".scales", Value::copy_of(ElementType::float32, shape, scales.data()))};
            node.attributes.erase("scales");
            node.attributes.emplace("coordinate_transformation_mode", std::string("asymmetric"));
            node.attributes.emplace("nearest_mode", std::string("floor"));
            become("", "Resize", 13);
        } else {
            become("", std::string(node.op_type).c_str(), 12);   // poolings are what they are elsewhere
        }
        nodes.push_back(std::move(node));
    }

    static Node transposition(const std::string& name, int from, int to, std::vector<std::int64_t> order)
    {
        Node node;
        node.name = name + ".transpose";
        node.op_type = "Transpose";
        node.opset = 13;
        node.inputs = {from};
        node.outputs = {to};
        node.attributes = {{"perm", std::move(order)}};
        return node;
    }

    Graph& graph_;
    std::map<int, const Value*> constants_;
    std::vector<std::pair<int, Value>> fresh_;
    std::int64_t block_ = 16;
};

}  // namespace

void lower_nchwc(Graph& graph)
{
    if (std::ranges::any_of(graph.nodes, [](const Node& node) { return node.domain == blocked_domain; }))
        Lowering(graph).run();
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            lower_nchwc(*inner);
}

}  // namespace clprim::onnx
