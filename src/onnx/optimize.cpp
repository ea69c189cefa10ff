#include "onnx/optimize.hpp"

#include <algorithm>
#include <set>

#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// Sessions change their graphs, models are shared: subgraphs are copied too.
GraphRef clone(const Graph& graph)
{
    auto copy = std::make_shared<Graph>(graph);
    for (Node& node : copy->nodes) {
        node.row = find_operator(node.domain, node.op_type, node.opset);
        for (auto& [name, attribute] : node.attributes)
            if (auto* inner = std::get_if<GraphRef>(&attribute))
                *inner = clone(**inner);
        if (node.body)
            node.body = clone(*node.body);
    }
    return copy;
}

bool is_random(const Node& node)
{
    static const std::set<std::string_view> names{"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                                                  "Multinomial", "Bernoulli", "Dropout"};
    if (names.contains(node.op_type))
        return true;
    for (const GraphRef& inner : subgraphs(node))
        if (std::ranges::any_of(inner->nodes, is_random))
            return true;
    return false;
}

// Runs every node that reads constants only, and keeps its results as constants.
void fold_constants(Graph& graph, Engine& engine)
{
    Frame frame(graph.slots.size());
    std::vector<bool> known(graph.slots.size());
    for (const auto& [slot, value] : graph.constants) {
        frame[static_cast<std::size_t>(slot)] = value;
        known[static_cast<std::size_t>(slot)] = true;
    }
    for (const int slot : graph.inputs)              // an input with an initializer may be given another value
        known[static_cast<std::size_t>(slot)] = false;
    std::vector<Node> rest;
    for (Node& node : graph.nodes) {
        const auto is_known = [&](int slot) { return slot == absent || known[static_cast<std::size_t>(slot)]; };
        bool foldable = std::ranges::all_of(node.inputs, is_known) && !is_random(node);
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                foldable = foldable && is_known(capture.first);
        if (!foldable) {
            rest.push_back(std::move(node));
            continue;
        }
        Graph single;
        single.nodes.push_back(node);
        single.released.resize(1);
        Engine silent{engine.queue, engine.draws};
        execute(single, frame, silent);
        for (const int slot : node.outputs)
            if (slot != absent) {
                known[static_cast<std::size_t>(slot)] = true;
                graph.constants.emplace_back(slot, frame[static_cast<std::size_t>(slot)]);
            }
    }
    graph.nodes = std::move(rest);
}

// Constants that nobody reads any more cost memory only.
void drop_unread(Graph& graph)
{
    std::set<int> read(graph.outputs.begin(), graph.outputs.end());
    read.insert(graph.inputs.begin(), graph.inputs.end());   // an initializer there is the default of an input
    for (const Node& node : graph.nodes) {
        read.insert(node.inputs.begin(), node.inputs.end());
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                read.insert(capture.first);
    }
    std::erase_if(graph.constants, [&](const auto& constant) { return !read.contains(constant.first); });
}

}  // namespace

GraphRef prepare(const Model& model, Engine& engine, bool optimize)
{
    GraphRef graph = clone(*model.graph);
    plan(*graph);
    if (optimize) {
        fold_constants(*graph, engine);
        Rewriter rewriter(*graph);
        fuse_convolutions(rewriter);
        fuse_products(rewriter);
        fuse_elementwise(rewriter);
        drop_unread(*graph);
        plan(*graph);
    }
    return graph;
}

}  // namespace clprim::onnx
