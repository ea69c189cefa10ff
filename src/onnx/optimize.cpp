#include "onnx/optimize.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include <clprim/context.hpp>

#include "onnx/ports.hpp"
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
    static const std::set<std::string_view> names{
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial",  "Bernoulli",        "Dropout"};
    if (names.contains(node.op_type))
        return true;
    for (const GraphRef& inner : subgraphs(node))
        if (std::ranges::any_of(inner->nodes, is_random))
            return true;
    return false;
}

bool is_host_tensor(const Value& value)
{
    return value.is_tensor() && value.type() != ElementType::string && value.on_host();
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
        if (!node.domain.empty() || node.body || !(is_shape || is_size) || node.inputs.size() != 1)
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
        execute_on_copies(single, frame, silent);
        for (const int slot : node.outputs)
            if (slot != absent) {
                known[static_cast<std::size_t>(slot)] = true;
                graph.constants.emplace_back(slot, frame[static_cast<std::size_t>(slot)]);
            }
    }
    graph.nodes = std::move(rest);
}

bool same_bytes(const Value& a, const Value& b)
{
    return a.type() == b.type() && a.shape() == b.shape() &&
           (a.host_bytes() == b.host_bytes() ||
            std::memcmp(a.host_bytes(), b.host_bytes(),
                        static_cast<std::size_t>(a.numel()) * size_of(storage_type(a.type()))) == 0);
}

// Large constants that are equal, such as copies of shared weights that were folded through Identity or Transpose,
// become one. Those that subgraphs or callers see stay.
void merge_constants(Graph& graph)
{
    constexpr std::int64_t large = 1 << 10;
    std::set<int> kept(graph.outputs.begin(), graph.outputs.end());
    kept.insert(graph.inputs.begin(), graph.inputs.end());
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                kept.insert(capture.first);
    std::map<std::pair<ElementType, std::int64_t>, std::vector<const std::pair<int, Value>*>> by_size;
    std::map<int, int> replacement;
    for (const auto& constant : graph.constants) {
        const auto& [slot, value] = constant;
        if (kept.contains(slot) || !is_host_tensor(value) || value.numel() < large)
            continue;
        auto& others = by_size[{value.type(), value.numel()}];
        const auto equal =
            std::ranges::find_if(others, [&](const auto* other) { return same_bytes(other->second, value); });
        if (equal == others.end())
            others.push_back(&constant);
        else if ((*equal)->first != slot)
            replacement[slot] = (*equal)->first;
    }
    for (Node& node : graph.nodes)
        for (int& slot : node.inputs)
            if (const auto found = replacement.find(slot); found != replacement.end())
                slot = found->second;
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

// Constants become the session's own, since the model may serve sessions on other devices as well. Large ones are held
// by the device alone: the model's copy goes when the model does.
void upload(Graph& graph, Queue& queue)
{
    constexpr std::int64_t large = 1 << 14;
    for (auto& [slot, value] : graph.constants) {
        if (!is_host_tensor(value))
            continue;
        if (value.numel() <= large) {
            value = Value::copy_of(value.type(), value.shape(), value.host_bytes());
            continue;
        }
        const Tensor own = queue.context().empty(value.shape(), storage_type(value.type()), queue);
        queue.write(*own.memory, 0, value.host_bytes(), own.nbytes());
        value = Value(own, value.type());
    }
    for (Node& node : graph.nodes) {
        for (auto& [name, attribute] : node.attributes)
            if (Value* value = std::get_if<Value>(&attribute); value && is_host_tensor(*value))
                *value = Value::copy_of(value->type(), value->shape(), value->host_bytes());
        for (const GraphRef& inner : subgraphs(node))
            upload(*inner, queue);
    }
}

// Gives the nodes, those of subgraphs too, a place for what they derive from their attributes.
void keep_derived(Graph& graph)
{
    for (Node& node : graph.nodes) {
        node.derived = std::make_shared<Derived>();
        for (const GraphRef& inner : subgraphs(node))
            keep_derived(*inner);
    }
}

// What says how a node uses its constants, if its attributes can be written down.
std::optional<std::string> use_of(const Node& node)
{
    std::string text = node.domain + " " + node.op_type;
    for (const auto& [name, attribute] : node.attributes) {
        text += " " + name + "=";
        if (const auto* integer = std::get_if<std::int64_t>(&attribute))
            text += std::to_string(*integer);
        else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute))
            text += to_string(Dims(*integers));
        else if (const auto* words = std::get_if<std::string>(&attribute))
            text += std::to_string(words->size()) + ":" + *words;
        else if (!std::holds_alternative<float>(attribute) && !std::holds_alternative<std::vector<float>>(attribute))
            return std::nullopt;                 // factors do not change how weights are laid out
    }
    return text;
}

// Gives the nodes a place for what they derive from constants that no caller can replace. Nodes that use a constant
// alike share it.
void keep_prepared(Graph& graph)
{
    std::map<std::string, std::shared_ptr<Prepared>> shared;
    std::set<int> constants;
    for (const auto& [slot, value] : graph.constants)
        constants.insert(slot);
    for (const int slot : graph.inputs)
        constants.erase(slot);
    for (Node& node : graph.nodes) {
        node.prepared.assign(node.inputs.size(), nullptr);
        const auto use = use_of(node);
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (!constants.contains(node.inputs[i]))
                continue;
            if (!use) {
                node.prepared[i] = std::make_shared<Prepared>();
                continue;
            }
            auto& place = shared[detail::concat(node.inputs[i], " ", i, " ", *use)];
            if (!place)
                place = std::make_shared<Prepared>();
            node.prepared[i] = place;
        }
    }
}

}  // namespace

GraphRef prepare(const Model& model, Engine& engine, const SessionOptions& options)
{
    GraphRef graph = clone(*model.graph);
    fix_sizes(*graph, options.sizes);
    plan(*graph);
    if (options.optimize) {
        fold_input_shapes(*graph);
        fold_constants(*graph, engine);
        Rewriter rewriter(*graph);
        fuse_convolutions(rewriter);
        fuse_products(rewriter);
        fuse_elementwise(rewriter);
        merge_constants(*graph);
        drop_unread(*graph);
        plan(*graph);
    }
    upload(*graph, engine.queue);
    keep_prepared(*graph);
    keep_derived(*graph);
    return graph;
}

}  // namespace clprim::onnx
