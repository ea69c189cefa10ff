// One execution of a node, as its handler sees it; and the table of operators.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include <clprim/error.hpp>
#include <clprim/queue.hpp>

#include "onnx/graph.hpp"
#include "onnx/node_profile.hpp"

namespace clprim::onnx {

// Values of one graph while it runs, by slot.
using Frame = std::vector<Value>;

class HostResults;
class Surplus;

// What all nodes of a running session share.
struct Engine {
    Queue& queue;
    std::atomic<std::uint64_t>& draws;   // random draws so far: the offset of the next one
    NodeProfile* profile = nullptr;
    // How often runs were cancelled, and how often when this one began.
    const std::atomic<std::uint64_t>* cancellations = nullptr;
    std::uint64_t cancellations_before = 0;
    Surplus* surplus = nullptr;          // gives back what nodes need no more
    HostResults* host_results = nullptr; // for the results of the whole run

    bool is_cancelled() const
    {
        return cancellations && cancellations->load(std::memory_order_relaxed) != cancellations_before;
    }
};

class Call {
public:
    // `released`: the slots that nobody reads after this node.
    Call(const Node& node, const std::vector<int>& released, Frame& frame, Engine& engine)
        : node_(node), released_(released), frame_(frame), engine_(engine)
    {
    }

    const Node& node() const { return node_; }
    Queue& queue() const { return engine_.queue; }
    Engine& engine() const { return engine_; }
    int opset() const { return node_.opset; }

    // Inputs.
    std::size_t inputs() const { return node_.inputs.size(); }
    bool has(std::size_t i) const { return i < inputs() && node_.inputs[i] != absent && !value(i).is_none(); }
    const Value& input(std::size_t i) const;                     // throws if absent
    Tensor tensor(std::size_t i) const { return input(i).device(queue()); }
    Tensor tensor_or_none(std::size_t i) const { return has(i) ? tensor(i) : Tensor(); }
    // Where to keep what is derived from input i if it never changes, else null.
    Prepared* prepared(std::size_t i) const { return i < node_.prepared.size() ? node_.prepared[i].get() : nullptr; }
    Tensor contiguous(std::size_t i) const;                      // row-major, copied if it is not
    const Dims& shape(std::size_t i) const { return input(i).shape(); }
    ElementType type(std::size_t i) const { return input(i).type(); }
    std::vector<std::int64_t> ints(std::size_t i) const { return input(i).to_ints(queue()); } // may wait for the device
    // Whether the memory of input i may be overwritten: this node reads it last, and nobody else holds it.
    bool overwritable(std::size_t i) const;
    double number(std::size_t i) const;                          // the only element
    std::int64_t integer(std::size_t i) const;

    // Attributes. Without a default a missing one throws.
    bool has_attribute(std::string_view name) const { return node_.attributes.contains(name); }
    template <class T>
    const T& attribute(std::string_view name) const
    {
        const auto found = node_.attributes.find(name);
        if (found == node_.attributes.end())
            fail("attribute ", name, " is missing");
        const T* result = std::get_if<T>(&found->second);
        if (!result)
            fail("attribute ", name, " has the wrong type");
        return *result;
    }
    template <class T>
    T attribute(std::string_view name, T otherwise) const
    {
        return has_attribute(name) ? attribute<T>(name) : otherwise;
    }
    std::int64_t integer_attribute(std::string_view name, std::int64_t otherwise) const
    {
        return attribute<std::int64_t>(name, otherwise);
    }
    float float_attribute(std::string_view name, float otherwise) const { return attribute<float>(name, otherwise); }
    std::vector<std::int64_t> ints_attribute(std::string_view name, std::vector<std::int64_t> otherwise = {}) const
    {
        return attribute<std::vector<std::int64_t>>(name, std::move(otherwise));
    }
    std::string string_attribute(std::string_view name, std::string otherwise) const
    {
        return attribute<std::string>(name, std::move(otherwise));
    }
    // Sizes or axes that were an attribute in old operator sets and are input `i` in new ones.
    std::vector<std::int64_t> ints_of(std::size_t i, std::string_view name) const
    {
        return has(i) ? ints(i) : ints_attribute(name);
    }
    bool has_ints(std::size_t i, std::string_view name) const { return has(i) || has_attribute(name); }
    // What make() derives from attributes alone (and from what `key` names, which also stands for its type): made once
    // per session.
    template <class Make, class T = std::invoke_result_t<Make>>
    std::shared_ptr<const T> derived(const std::string& key, Make&& make) const
    {
        if (!node_.derived)
            return std::make_shared<const T>(make());
        const std::lock_guard lock(node_.derived->mutex);
        std::shared_ptr<const void>& kept = node_.derived->values[{&queue(), key}];
        if (!kept)
            kept = std::make_shared<const T>(make());
        return std::static_pointer_cast<const T>(kept);
    }
    // An axis in [-dims, dims) counted from the front; throws otherwise.
    std::size_t axis(std::int64_t given, std::size_t dims) const;

    // Throws where a number is larger than any size, up or down: arithmetic with the others cannot overflow.
    void check_sizes(std::span<const std::int64_t> numbers, const char* what) const;

    // Outputs.
    std::size_t outputs() const { return node_.outputs.size(); }
    bool wants(std::size_t i) const { return i < outputs() && node_.outputs[i] != absent; }
    void output(std::size_t i, Value value);
    Tensor allocate(const Dims& shape, DataType dtype) const;    // row-major
    Tensor allocate_like(const Tensor& other) const;             // its shape, dtype and dense layout
    Tensor output_tensor(std::size_t i, const Dims& shape, ElementType type);   // allocated and set as output i
    // Memory for output 0 where its node is to put it (Node::place); undefined where it has no place or does not fit.
    Tensor placed(const Dims& shape, DataType dtype, bool channels_last) const;

    // A value of the graph that this node is in, which a subgraph captures.
    const Value& outer(int slot) const { return frame_[static_cast<std::size_t>(slot)]; }
    // Runs a subgraph of this node (attribute or body) with the values that it captures.
    std::vector<Value> run(const Graph& body, std::span<const Value> arguments) const;
    // The same for one whose results are not those of the node.
    std::vector<Value> evaluate(const Graph& body, std::span<const Value> arguments) const;

    template <class... Parts>
    [[noreturn]] void fail(const Parts&... parts) const
    {
        throw InvalidArgument(detail::concat(parts...));         // the executor adds operator and name
    }
    template <class... Parts>
    void check(bool condition, const Parts&... parts) const
    {
        if (!condition) [[unlikely]]
            fail(parts...);
    }

private:
    const Value& value(std::size_t i) const { return frame_[static_cast<std::size_t>(node_.inputs[i])]; }

    const Node& node_;
    const std::vector<int>& released_;
    Frame& frame_;
    Engine& engine_;
};

using Handler = void (*)(Call&);

// A row of the table of operators: from operator set `since` of its domain until the next row of that name. `host`
// computes the same on the host; it is taken when every input already lies there and is small (arithmetic of shapes).
struct OperatorRow {
    const char* name;
    int since;
    Handler run;
    Handler host = nullptr;
    const char* domain = "";
};

// The rows of all families (ops/families.hpp); null if clprim lacks the operator at that version.
const OperatorRow* find_operator(std::string_view domain, std::string_view name, int opset);
std::span<const OperatorRow> all_operators();

// Runs a planned graph: constants, `arguments` for its inputs and captured values must be in the frame.
void execute(const Graph& graph, Frame& frame, Engine& engine);
std::vector<Value> run_graph(const Graph& graph, std::span<const Value> arguments, const Frame* outer, Engine& engine);

}  // namespace clprim::onnx
