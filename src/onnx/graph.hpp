// What a model is after reading: names are resolved to slots, functions to bodies, tensors to values.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <clprim/prepared.hpp>
#include <clprim/value.hpp>

#include "onnx/model_files.hpp"

namespace clprim::onnx {

struct Graph;
using GraphRef = std::shared_ptr<Graph>;

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                               std::vector<std::string>, Value, GraphRef>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

inline constexpr int absent = -1;

struct OperatorRow;

// What handlers derive from the attributes of a node, kept for a session's queues.
struct Derived {
    std::mutex mutex;
    std::map<std::pair<const Queue*, std::string>, std::shared_ptr<const void>> values;
};

// Where a node may write its first output: channels [begin, begin + channels) of a buffer with `total` of them, which
// whoever comes first allocates and puts into slot `buffer`. What does not fit goes to memory of its own.
struct Placement {
    int buffer = absent;
    std::int64_t begin = 0, channels = 0, total = 0;
};

// Matrices of bytes with a scale and a zero point for each column.
struct QuantizedMatrix {
    Value bytes, scales, zeros;          // on the host: [n, rows, columns], none where they are the node's own input;
                                         // float32 [n, columns]
};

struct Node {
    std::string name, op_type, domain;   // domain "" stands for ai.onnx
    int opset = 1;                       // version of its domain
    std::vector<int> inputs, outputs;    // slots of the graph, or absent
    Attributes attributes;
    GraphRef body;                       // of a call to a model-local function
    Placement place;
    std::vector<std::shared_ptr<Prepared>> prepared;   // by input, of those that never change; empty without such
    std::shared_ptr<const QuantizedMatrix> input_bytes, recurrent_bytes;   // of an LSTM: what W and R were made of,
                                                                           // their last axes turned
    std::shared_ptr<Derived> derived;    // null before a session has prepared its graph
    const OperatorRow* row = nullptr;    // what runs it; null until a session looked it up, and for function calls
};

// An attribute of a node, or null where it has none of this name and type.
template <class T>
const T* find_attribute(const Node& node, std::string_view name)
{
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}
template <class T>
T attribute_of(const Node& node, std::string_view name, T otherwise)
{
    const T* value = find_attribute<T>(node, name);
    return value ? *value : otherwise;
}

// A value's name, element type and shape as the model declares them; sizes are numbers or names, or unknown ("").
struct Port {
    enum class Kind { tensor, sequence, optional, map, other };
    std::string name;
    Kind kind = Kind::tensor;
    ElementType type = ElementType::undefined;
    ElementType key = ElementType::undefined;    // of a map, or of a sequence's maps, whose values `type` is of
    bool has_shape = false;
    std::vector<std::variant<std::int64_t, std::string>> shape;
};

// Nodes in an order in which they can run. A subgraph sees outer values through `captures`: (outer slot, own slot).
struct Graph {
    std::string name;
    std::vector<Node> nodes;
    std::vector<std::string> slots;                   // names of values
    std::vector<int> inputs, outputs;                 // outputs may be absent in a function
    std::vector<std::pair<int, Value>> constants;     // initializers
    std::vector<std::pair<int, int>> captures;
    // Derived by `plan`: the slots whose last reader is node i, to be released after it.
    std::vector<std::vector<int>> released;
    std::vector<Port> input_ports, output_ports;
    std::shared_ptr<const detail::MemoryPool> memory;  // of large constants and what is derived of them, in a session

    int add_slot(std::string slot_name)
    {
        slots.push_back(std::move(slot_name));
        return static_cast<int>(slots.size()) - 1;
    }
};

// Subgraphs among the attributes and the body of a node.
std::vector<GraphRef> subgraphs(const Node& node);

// Calls `see` for the nodes of a graph and of everything inside.
template <class F>
void for_each_node(const Graph& graph, const F& see)
{
    for (const Node& node : graph.nodes) {
        see(node);
        for (const GraphRef& inner : subgraphs(node))
            for_each_node(*inner, see);
    }
}

// What a node Constant holds, in whichever of its attributes; nothing if it has none.
Value constant_value(const Node& node);

// Fills `released`, of subgraphs too. To be called again after nodes were changed.
void plan(Graph& graph);

struct Model {
    GraphRef graph;
    std::map<std::string, std::int64_t> opsets;
    std::string producer;
    std::int64_t ir_version = 0;
    std::map<std::string, std::string> metadata;
    std::vector<ModelFile> files;      // its own first, then those of external data; none for a model from memory
    std::vector<ModelFile> mapped;     // those that constants lie in
};

// The model from its files, wherever they are now. Throws InvalidArgument where somebody wrote to them meanwhile.
std::shared_ptr<const Model> read_again(const std::vector<ModelFile>& files);

}  // namespace clprim::onnx
