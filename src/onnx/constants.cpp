// What sessions do with the constants of their graphs.
#include "onnx/constants.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include <clprim/context.hpp>
#include <clprim/error.hpp>

#include "core/memory_pool.hpp"

namespace clprim::onnx {

std::set<int> shared_slots(const Graph& graph)
{
    std::set<int> slots(graph.outputs.begin(), graph.outputs.end());
    slots.insert(graph.inputs.begin(), graph.inputs.end());   // an initializer there is the default of an input
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                slots.insert(capture.first);
    return slots;
}

bool is_host_tensor(const Value& value)
{
    return value.is_tensor() && value.type() != ElementType::string && value.on_host();
}

namespace {

bool same_bytes(const Value& a, const Value& b)
{
    return a.type() == b.type() && a.shape() == b.shape() &&
           (a.host_bytes() == b.host_bytes() ||
            std::memcmp(a.host_bytes(), b.host_bytes(),
                        static_cast<std::size_t>(a.numel()) * size_of(storage_type(a.type()))) == 0);
}

// Constants become the session's own, since the model may serve sessions on other devices as well. Large ones are held
// by the device alone: the model's copy goes when the model does. Those that graphs share stay shared.
class Uploads {
public:
    Uploads(Graph& graph, Queue& queue, Upload when)
        : queue_(queue), when_(when), memory_(graph.memory), seen_by_others_(shared_slots(graph))
    {
        count(graph);
        upload(graph, true);
    }

private:
    struct Shared {
        int graphs = 0;
        Value original, own;                     // the original keeps its address from being another's
    };

    void count(const Graph& graph)
    {
        for (const auto& [slot, value] : graph.constants)
            if (is_host_tensor(value))
                ++shared_[place(value)].graphs;
        for (const Node& node : graph.nodes)
            for (const GraphRef& inner : subgraphs(node))
                count(*inner);
    }

    void upload(Graph& graph, bool outermost)
    {
        for (auto& [slot, value] : graph.constants) {
            if (!is_host_tensor(value))
                continue;
            Shared& shared = shared_[place(value)];
            if (shared.graphs < 2) {
                if (when_ == Upload::at_first_use && outermost && value.numel() > large_constant &&
                    !seen_by_others_.contains(slot)) {
                    value = value.kept_in(memory_);
                    continue;
                }
                value = own(value);
                continue;
            }
            if (shared.own.is_none()) {
                shared.original = value;
                shared.own = own(value);
            }
            value = shared.own;
        }
        for (Node& node : graph.nodes) {
            for (auto& [name, attribute] : node.attributes)
                if (Value* value = std::get_if<Value>(&attribute); value && is_host_tensor(*value))
                    *value = Value::copy_of(value->type(), value->shape(), value->host_bytes());
            for (const GraphRef& inner : subgraphs(node))
                upload(*inner, false);
        }
    }

    Value own(const Value& value) const
    {
        if (value.numel() <= large_constant)
            return Value::copy_of(value.type(), value.shape(), value.host_bytes());
        const detail::MemoryPool::Use use(*memory_);
        const Tensor own = queue_.context().empty(value.shape(), storage_type(value.type()), queue_);
        queue_.write(*own.memory, 0, value.host_bytes(), own.nbytes());
        return {own, value.type()};
    }

    using Place = std::tuple<const void*, ElementType, std::string>;
    static Place place(const Value& value) { return {value.host_bytes(), value.type(), to_string(value.shape())}; }

    Queue& queue_;
    Upload when_;
    std::shared_ptr<const detail::MemoryPool> memory_;
    std::set<int> seen_by_others_;
    std::map<Place, Shared> shared_;
};

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

// What tells a constant from others: where it lies, or nothing for strings and sequences.
const void* place_of(const Value& value, Queue& queue)
{
    if (!value.is_tensor() || value.type() == ElementType::string)
        return nullptr;
    if (value.on_host())
        return value.host_bytes();
    return value.device(queue).memory.get();
}

// Places that nodes share.
struct Sharing {
    std::map<std::string, std::shared_ptr<Prepared>> places;
    std::shared_ptr<const detail::MemoryPool> pool;
};

// Gives the nodes a place for what they derive from constants that no caller can replace. Nodes that use a constant
// alike share it.
void keep_prepared(Graph& graph, Queue& queue, Sharing& shared)
{
    std::map<int, const void*> constants;
    for (const auto& [slot, value] : graph.constants)
        constants[slot] = place_of(value, queue);
    for (const int slot : graph.inputs)
        constants.erase(slot);
    for (Node& node : graph.nodes) {
        node.prepared.assign(node.inputs.size(), nullptr);
        const auto use = use_of(node);
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            const auto constant = constants.find(node.inputs[i]);
            if (constant == constants.end())
                continue;
            if (!use || !constant->second) {
                node.prepared[i] = std::make_shared<Prepared>(shared.pool);
                continue;
            }
            auto& place = shared.places[detail::concat(constant->second, " ", i, " ", *use)];
            if (!place)
                place = std::make_shared<Prepared>(shared.pool);
            node.prepared[i] = place;
        }
        for (const GraphRef& inner : subgraphs(node))
            keep_prepared(*inner, queue, shared);
    }
}

}  // namespace

// Large constants that are equal, such as copies of shared weights that were folded through Identity or Transpose,
// become one. Those that subgraphs or callers see stay.
void merge_constants(Graph& graph)
{
    constexpr std::int64_t large = 1 << 10;
    const std::set<int> kept = shared_slots(graph);
    std::map<std::pair<ElementType, std::int64_t>, std::vector<const std::pair<int, Value>*>> by_size;
    std::map<int, int> replacement;
    for (const auto& constant : graph.constants) {
        const auto& [slot, value] = constant;
        if (kept.contains(slot) || !is_host_tensor(value) || value.numel() < large)
            continue;
        auto& others = by_size[{value.type(), value.numel()}];
        const auto equal = std::ranges::find_if(
            others, [&value = value](const auto* other) { return same_bytes(other->second, value); });
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
    std::set<int> read = shared_slots(graph);
    for (const Node& node : graph.nodes)
        read.insert(node.inputs.begin(), node.inputs.end());
    std::erase_if(graph.constants, [&](const auto& constant) { return !read.contains(constant.first); });
}

void settle_constants(Graph& graph, Queue& queue, Upload upload)
{
    // Their memory lies by itself: what activations leave between runs can be given back whole.
    graph.memory = std::make_shared<detail::MemoryPool>();
    Uploads(graph, queue, upload);
    Sharing shared{{}, graph.memory};
    keep_prepared(graph, queue, shared);
    keep_derived(graph);
}

}  // namespace clprim::onnx
