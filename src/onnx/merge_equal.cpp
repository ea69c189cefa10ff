// Nodes that compute the same of the same become one: exporters write masks, positions and sizes anew in each layer.
// Elementwise operators stay, as each is computed within what reads it.
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "onnx/constants.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/optimize.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// Domain, operator, its set, inputs, how many outputs, attributes as bytes: NaN equals itself, 0 is not -0.
using Attributes = std::map<std::string, std::string>;
using Key = std::tuple<std::string, std::string, int, std::vector<int>, std::size_t, Attributes>;

template <class T>
std::string bytes_of(const T* values, std::size_t count)
{
    return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

// Nothing for tensors and graphs.
std::optional<std::string> bytes_of(const Attribute& attribute)
{
    const std::string type(1, static_cast<char>(attribute.index()));
    return std::visit(
        [&]<class T>(const T& value) -> std::optional<std::string> {
            if constexpr (std::is_arithmetic_v<T>)
                return type + bytes_of(&value, 1);
            else if constexpr (std::is_same_v<T, std::string>)
                return type + value;
            else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<float>>)
                return type + bytes_of(value.data(), value.size());
            else
                return std::nullopt;
        },
        attribute);
}

std::optional<Key> key_of(const Node& node)
{
    Attributes attributes;
    for (const auto& [name, attribute] : node.attributes) {
        auto bytes = bytes_of(attribute);
        if (!bytes)
            return std::nullopt;
        attributes.emplace(name, std::move(*bytes));
    }
    return Key{node.domain, node.op_type, node.opset, node.inputs, node.outputs.size(), std::move(attributes)};
}

// Small constants by what they hold: the first slot that held it.
std::map<int, int> first_equal_constants(const Graph& graph, const std::set<int>& kept)
{
    constexpr std::int64_t most = 64;
    std::map<std::tuple<ElementType, std::vector<std::int64_t>, std::string>, int> known;
    std::map<int, int> result;
    for (const auto& [slot, value] : graph.constants) {
        if (kept.contains(slot) || !is_host_tensor(value) || value.numel() > most)
            continue;
        const auto bytes = static_cast<std::size_t>(value.numel()) * size_of(storage_type(value.type()));
        const auto found = known.try_emplace({value.type(), {value.shape().begin(), value.shape().end()},
                                              bytes_of(value.host_bytes(), bytes)}, slot);
        result[slot] = found.first->second;
    }
    return result;
}

}  // namespace

void merge_equal(Graph& graph)
{
    const std::set<int> kept = shared_slots(graph);
    std::map<int, int> equal = first_equal_constants(graph, kept);
    std::map<Key, const std::vector<int>> known;
    std::erase_if(graph.nodes, [&](Node& node) {
        for (int& slot : node.inputs)
            if (const auto found = equal.find(slot); found != equal.end())
                slot = found->second;
        auto key = node.body || varies(node) || elementwise_code(node).code ? std::nullopt : key_of(node);
        if (!key)
            return false;
        const auto [first, fresh] = known.try_emplace(std::move(*key), node.outputs);
        if (fresh)
            return false;
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
            if (node.outputs[i] != absent && (kept.contains(node.outputs[i]) || first->second[i] == absent))
                return false;
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
            if (node.outputs[i] != absent)
                equal[node.outputs[i]] = first->second[i];
        return true;
    });
}

}  // namespace clprim::onnx
