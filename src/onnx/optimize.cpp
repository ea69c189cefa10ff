#include "onnx/optimize.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include <clprim/context.hpp>

#include "onnx/constants.hpp"
#include "onnx/ports.hpp"
#include "onnx/registered.hpp"
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

// Values on the host may be the model's, which also serves sessions on other devices: nodes get copies to put on
// theirs.
void execute_on_copies(const Graph& single, Frame& frame, Engine& engine)
{
    std::vector<std::pair<std::size_t, Value>> originals;
    const auto take_copy = [&](int slot) {
        if (slot == absent || !is_host_tensor(frame[static_cast<std::size_t>(slot)]))
            return;
        Value& value = frame[static_cast<std::size_t>(slot)];
        originals.emplace_back(slot, value);
        value = Value::copy_of(value.type(), value.shape(), value.host_bytes());
    };
    for (const int slot : single.nodes[0].inputs)
        take_copy(slot);
    for (const GraphRef& inner : subgraphs(single.nodes[0]))
        for (const auto& capture : inner->captures)
            take_copy(capture.first);
    execute(single, frame, engine);
    for (auto original = originals.rbegin(); original != originals.rend(); ++original)   // a slot may be there twice
        frame[original->first] = std::move(original->second);
}

using Sizes = std::vector<std::int64_t>;

// The shape of an input whose sizes are all known: a run takes no other.
std::optional<Sizes> static_shape(const Port& port)
{
    if (port.kind != Port::Kind::tensor || !port.has_shape)
        return std::nullopt;
    Sizes shape;
    for (const auto& size : port.shape) {
        const auto* number = std::get_if<std::int64_t>(&size);
        if (!number || *number <= 0)
            return std::nullopt;
        shape.push_back(*number);
    }
    return shape;
}

// What Shape and Size say of inputs with known sizes becomes constants.
void fold_input_shapes(Graph& graph)
{
    std::map<int, Sizes> shapes;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (const auto shape = static_shape(graph.input_ports[i]))
            shapes[graph.inputs[i]] = *shape;
    std::erase_if(graph.nodes, [&](const Node& node) {
        const bool is_shape = node.op_type == "Shape", is_size = node.op_type == "Size";
        if (!node.domain.empty() || node.body || !(is_shape || is_size) || node.inputs.size() != 1 ||
            node.outputs.size() != 1)
            return false;
        for (const char* name : {"start", "end"})   // of another type: an error of the run
            if (const auto given = node.attributes.find(name);
                given != node.attributes.end() && !std::holds_alternative<std::int64_t>(given->second))
                return false;
        const auto found = shapes.find(node.inputs[0]);
        if (found == shapes.end())
            return false;
        const Sizes& shape = found->second;
        if (is_size) {
            std::int64_t count = 1;
            for (const std::int64_t size : shape)
                if (__builtin_mul_overflow(count, size, &count))
                    return false;
            graph.constants.emplace_back(node.outputs[0], Value::scalar(count));
            return true;
        }
        const auto rank = static_cast<std::int64_t>(shape.size());
        const auto bound = [&](const char* name, std::int64_t otherwise) {
            const auto given = node.attributes.find(name);
            const std::int64_t at = given == node.attributes.end() ? otherwise : std::get<std::int64_t>(given->second);
            return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
        };
        const std::int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
        graph.constants.emplace_back(node.outputs[0], Value::ints(std::span(shape).subspan(
                                                          static_cast<std::size_t>(start),
                                                          static_cast<std::size_t>(end - start))));
        return true;
    });
}

enum class Depth { outermost, inside };

// Whether a node is kept though it reads constants only: integers stay what they are for whoever reads the file that a
// session of ONNX's own operators saves.
bool keeps_integers(const Node& node, OptimizationLevel level)
{
    return level == OptimizationLevel::basic && node.op_type == "DequantizeLinear" && !node.body;
}

// Runs every node that reads constants only, and keeps its results as constants. Inside of control flow a node that
// fails stays: it may never be asked to run.
void fold_constants(Graph& graph, Engine& engine, OptimizationLevel level, Depth depth)
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
        bool foldable = std::ranges::all_of(node.inputs, is_known) && !varies(node) && !keeps_integers(node, level);
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
        try {
            execute_on_copies(single, frame, silent);
        } catch (const Error&) {
            if (depth == Depth::outermost)
                throw;
            rest.push_back(std::move(node));
            continue;
        }
        for (const int slot : node.outputs)
            if (slot != absent) {
                known[static_cast<std::size_t>(slot)] = true;
                graph.constants.emplace_back(slot, frame[static_cast<std::size_t>(slot)]);
            }
    }
    graph.nodes = std::move(rest);
}

// Constants of a graph that its subgraphs see become constants of these: what they do with them can be folded and
// prepared as well.
void hand_down_constants(const Graph& graph)
{
    std::map<int, const Value*> constants;
    for (const auto& [slot, value] : graph.constants)
        constants[slot] = &value;
    for (const int slot : graph.inputs)
        constants.erase(slot);
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            std::erase_if(inner->captures, [&](const auto& capture) {
                const auto found = constants.find(capture.first);
                if (found != constants.end())
                    inner->constants.emplace_back(capture.second, *found->second);
                return found != constants.end();
            });
}

// Nodes whose results nobody reads go, and those that served them alone. What draws random numbers stays: others draw
// theirs after it.
void drop_unread_nodes(Graph& graph)
{
    std::set<int> read(graph.outputs.begin(), graph.outputs.end());
    std::vector<Node> rest;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
        if (!varies(*node) &&
            std::ranges::none_of(node->outputs, [&](int slot) { return slot != absent && read.contains(slot); }))
            continue;
        read.insert(node->inputs.begin(), node->inputs.end());
        for (const GraphRef& inner : subgraphs(*node))
            for (const auto& capture : inner->captures)
                read.insert(capture.first);
        rest.push_back(std::move(*node));
    }
    std::ranges::reverse(rest);
    graph.nodes = std::move(rest);
}

void fold(Graph& graph, Engine& engine, OptimizationLevel level, Depth depth)
{
    const bool all = level == OptimizationLevel::all;
    if (all) {
        fuse_quantised(graph);
        release_carried(graph);
    }
    fold_constants(graph, engine, level, depth);
    hand_down_constants(graph);
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            fold(*inner, engine, level, Depth::inside);
    if (all)
        hoist_invariants(graph);
}

void fuse(Graph& graph, Engine& engine)
{
    Rewriter rewriter(graph);
    simplify(rewriter);
    fuse_norms(rewriter);
    fuse_gelu(rewriter);
    fuse_rotary(rewriter);
    fuse_moves(rewriter);
    fuse_attention(rewriter);
    dequantize_recurrences(rewriter, engine.queue.device());
    fuse_convolutions(rewriter);
    fuse_batch_norms(rewriter);
    fuse_products(rewriter);
    fuse_integer_products(rewriter);
    fuse_elementwise(rewriter);
}

// What is left once constants are folded.
void reduce(Graph& graph, Engine& engine, OptimizationLevel level)
{
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            reduce(*inner, engine, level);
    const bool all = level == OptimizationLevel::all;
    skip_copies(graph);
    merge_equal(graph);
    drop_unread_nodes(graph);
    if (all)
        fuse(graph, engine);
    merge_constants(graph);
    drop_unread(graph);
    if (all)
        place_concatenations(graph);
}

}  // namespace

bool varies(const Node& node)
{
    static const std::set<std::string_view> names{
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial",  "Bernoulli",        "Dropout", "Sampling"};
    if (names.contains(node.op_type) || (node.row && !is_pure(*node.row)))
        return true;
    for (const GraphRef& inner : subgraphs(node))
        if (std::ranges::any_of(inner->nodes, varies))
            return true;
    return false;
}

GraphRef prepare(std::shared_ptr<const Model> model, Engine& engine, const SessionOptions& options, Upload upload)
{
    GraphRef graph = clone(*model->graph);
    model.reset();
    fix_sizes(*graph, options.sizes);
    plan(*graph);
    if (options.optimization != OptimizationLevel::none) {
        fold_input_shapes(*graph);
        fold(*graph, engine, options.optimization, Depth::outermost);
        reduce(*graph, engine, options.optimization);
        plan(*graph);
    }
    settle_constants(*graph, engine.queue, upload);
    return graph;
}

}  // namespace clprim::onnx

namespace clprim {

namespace {

constexpr std::array<std::string_view, 3> level_names{"none", "basic", "all"};      // in the order of the enumeration

}  // namespace

std::string_view name_of(OptimizationLevel level) noexcept { return level_names[static_cast<std::size_t>(level)]; }

OptimizationLevel optimization_level_from_name(std::string_view name)
{
    const auto found = std::ranges::find(level_names, name);
    require(found != level_names.end(), "no optimization level '", name, "'; expected none, basic or all");
    return static_cast<OptimizationLevel>(found - level_names.begin());
}

}  // namespace clprim
