// What Loop and Scan compute anew in each iteration though it is always the same, and what of all iterations is one
// product. Exporters write much of it: Paddle's and TensorFlow's hand every weight from iteration to iteration.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "onnx/optimize.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// A loop of a graph, and where its carried values are.
struct LoopNode {
    Node& node;
    Graph& body;
    std::size_t carried = 0;                                   // how many
    std::size_t operand = 0, input = 0, output = 0;            // the first's place among the node's inputs, the body's
                                                               // inputs, and the body's outputs
};

std::optional<LoopNode> loop_of(Node& node)
{
    const auto* body = find_attribute<GraphRef>(node, "body");
    if (!node.domain.empty() || node.body || !body)
        return std::nullopt;
    if (node.op_type == "Loop" && node.inputs.size() >= 2)
        return LoopNode{node, **body, node.inputs.size() - 2, 2, 2, 1};
    const auto scanned = static_cast<std::size_t>(attribute_of(node, "num_scan_inputs", std::int64_t{0}));
    // Scans of operator set 8 hand batches over, one sequence at a time.
    if (node.op_type == "Scan" && node.opset >= 9 && scanned <= node.inputs.size())
        return LoopNode{node, **body, node.inputs.size() - scanned, 0, 0, 0};
    return std::nullopt;
}

bool consistent(const LoopNode& loop)
{
    return loop.body.inputs.size() >= loop.input + loop.carried &&
           loop.body.outputs.size() >= loop.output + loop.carried &&
           loop.body.input_ports.size() == loop.body.inputs.size() &&
           loop.body.output_ports.size() == loop.body.outputs.size() && loop.node.outputs.size() >= loop.carried;
}

template <class List>
void erase_at(List& list, std::size_t place)
{
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(place));
}

const Node* writer(const Graph& graph, int slot)
{
    const auto found = std::ranges::find_if(
        graph.nodes, [&](const Node& node) { return std::ranges::find(node.outputs, slot) != node.outputs.end(); });
    return found == graph.nodes.end() ? nullptr : &*found;
}

// What a value of a graph is a copy of.
int original(const Graph& graph, int slot)
{
    const Node* node = writer(graph, slot);
    while (node && node->domain.empty() && !node->body && node->op_type == "Identity" && node->inputs.size() == 1) {
        slot = node->inputs[0];
        node = writer(graph, slot);
    }
    return slot;
}

const Value* constant_of(const Graph& graph, int slot)
{
    const auto found = std::ranges::find(graph.constants, slot, &std::pair<int, Value>::first);
    return found == graph.constants.end() ? nullptr : &found->second;
}

// Those carried values that the body hands on as they came become captured ones. What the loop gives out for them is
// what it was given: by Identity nodes, to stand behind it.
std::vector<Node> release(LoopNode loop)
{
    std::vector<Node> copies;
    for (std::size_t k = loop.carried; k-- > 0;) {
        const int outer = loop.node.inputs[loop.operand + k], own = loop.body.inputs[loop.input + k];
        const int handed_on = loop.body.outputs[loop.output + k];
        // Outputs of subgraphs are values of their own: files may not return captured ones.
        if (outer == absent || own == absent || handed_on == absent || original(loop.body, handed_on) != own ||
            std::ranges::count(loop.body.outputs, own) > (handed_on == own) || constant_of(loop.body, own))
            continue;
        if (loop.node.outputs[k] != absent) {
            Node copy;
            copy.op_type = "Identity";
            copy.opset = loop.node.opset;
            copy.inputs = {outer};
            copy.outputs = {loop.node.outputs[k]};
            copy.row = find_operator("", "Identity", copy.opset);
            copies.push_back(std::move(copy));
        }
        loop.body.captures.emplace_back(outer, own);
        erase_at(loop.node.inputs, loop.operand + k);
        erase_at(loop.node.outputs, k);
        erase_at(loop.body.inputs, loop.input + k);
        erase_at(loop.body.input_ports, loop.input + k);
        erase_at(loop.body.outputs, loop.output + k);
        erase_at(loop.body.output_ports, loop.output + k);
    }
    return copies;
}

// Operators that nothing but operands of another kind makes fail: a loop of no iterations computes none of its body.
bool never_fails(const Node& node)
{
    static const std::set<std::string_view> names{
        "Abs",     "Add",  "And",       "Cast",           "Ceil",      "Concat", "Equal",   "Erf",     "Exp",
        "Floor",   "Gemm", "Greater",   "GreaterOrEqual", "Identity",  "Less",   "LessOrEqual", "Log", "MatMul",
        "Max",     "Min",  "Mul",       "Neg",            "Not",       "Or",     "Relu",    "Shape",   "Sigmoid",
        "Size",    "Softmax", "Sqrt",   "Sub",            "Tanh",      "Transpose", "Unsqueeze", "Where"};
    return node.domain.empty() && !node.body && names.contains(node.op_type) && subgraphs(node).empty();
}

// Takes nodes out of a loop's body into the graph around it.
class Hoist {
public:
    Hoist(Graph& outer, LoopNode loop)
        : outer_(outer), loop_(loop), inputs_(loop.body.inputs.begin(), loop.body.inputs.end()),
          outputs_(loop.body.outputs.begin(), loop.body.outputs.end())
    {
        for (const auto& [there, own] : loop.body.captures)
            if (!inputs_.contains(own))
                there_[own] = there;
    }

    // In the order in which they are to stand ahead of the loop.
    std::vector<Node> take()
    {
        std::vector<Node> rest;
        for (const Node& node : loop_.body.nodes) {
            if (invariant(node))
                move(node);
            else
                rest.push_back(is_product_of_element(node) ? element_of_product(node) : node);
        }
        loop_.body.nodes = std::move(rest);
        return std::move(taken_);
    }

private:
    bool is_constant(int slot) const { return !inputs_.contains(slot) && constant_of(loop_.body, slot); }

    // A node of constants alone is left to be folded, one that computes a result of the body to compute it.
    bool invariant(const Node& node) const
    {
        const auto comes_from_outside = [&](int slot) { return there_.contains(slot); };
        return never_fails(node) && std::ranges::any_of(node.inputs, comes_from_outside) &&
               std::ranges::all_of(node.inputs, [&](int slot) {
                   return slot == absent || comes_from_outside(slot) || is_constant(slot);
               }) &&
               std::ranges::none_of(node.outputs, [&](int slot) { return outputs_.contains(slot); });
    }

    // The slot of the graph around for one of the body.
    int outside(int slot)
    {
        if (slot == absent)
            return absent;
        const auto [found, fresh] = there_.emplace(slot, absent);
        if (fresh) {
            found->second = outer_.add_slot("");
            outer_.constants.emplace_back(found->second, *constant_of(loop_.body, slot));
        }
        return found->second;
    }

    // A value of the graph around that the body sees as `slot`.
    int made_outside(int slot)
    {
        const int there = outer_.add_slot(loop_.body.slots[static_cast<std::size_t>(slot)]);
        loop_.body.captures.emplace_back(there, slot);
        return there_[slot] = there;
    }

    void move(Node node)
    {
        std::ranges::transform(node.inputs, node.inputs.begin(), [&](int slot) { return outside(slot); });
        for (int& slot : node.outputs)
            if (slot != absent)
                slot = made_outside(slot);
        taken_.push_back(std::move(node));
    }

    // Whether a value of the body says which iteration this is: it goes through a sequence step by step.
    bool counts(int slot) const
    {
        if (loop_.node.op_type == "Loop" && slot == loop_.body.inputs[0])
            return true;
        for (std::size_t k = 0; k < loop_.carried; ++k) {
            if (loop_.body.inputs[loop_.input + k] != slot)
                continue;
            const Node* next = writer(loop_.body, original(loop_.body, loop_.body.outputs[loop_.output + k]));
            return next && next->domain.empty() && next->op_type == "Add" && next->inputs.size() == 2 &&
                   ((next->inputs[0] == slot && is_one(next->inputs[1])) ||
                    (next->inputs[1] == slot && is_one(next->inputs[0])));
        }
        return false;
    }

    bool is_one(int slot) const
    {
        const Value* value = is_constant(slot) ? constant_of(loop_.body, slot) : nullptr;
        if (!value || !is_host_tensor(*value) || value->numel() != 1)
            return false;
        const auto holds_one = [&]<class T>(T one) {
            return is_element<T>(storage_type(value->type())) && std::memcmp(value->host_bytes(), &one, sizeof(T)) == 0;
        };
        return holds_one(std::int32_t{1}) || holds_one(std::int64_t{1});
    }

    // A product with a matrix of an element of a sequence that is there as a whole.
    bool is_product_of_element(const Node& node) const
    {
        if (!node.domain.empty() || node.body || node.op_type != "MatMul" || node.inputs.size() != 2 ||
            !is_constant(node.inputs[1]))
            return false;
        const Value& matrix = *constant_of(loop_.body, node.inputs[1]);
        const Node* pick = writer(loop_.body, node.inputs[0]);
        return matrix.is_tensor() && matrix.dim() == 2 && pick && pick->domain.empty() && pick->op_type == "Gather" &&
               pick->inputs.size() == 2 && attribute_of(*pick, "axis", std::int64_t{0}) == 0 &&
               there_.contains(pick->inputs[0]) && !is_constant(pick->inputs[0]) && counts(pick->inputs[1]);
    }

    // That product as an element of the whole sequence's product, which is left outside.
    Node element_of_product(const Node& node)
    {
        Node element = *writer(loop_.body, node.inputs[0]), product = node;
        product.inputs = {outside(element.inputs[0]), outside(node.inputs[1])};
        const int seen = loop_.body.add_slot("");
        product.outputs = {made_outside(seen)};
        taken_.push_back(std::move(product));
        element.inputs[0] = seen;
        element.outputs = node.outputs;
        return element;
    }

    Graph& outer_;
    LoopNode loop_;
    std::set<int> inputs_, outputs_;                 // the body's
    std::map<int, int> there_;                       // slots of the graph around, by those of the body
    std::vector<Node> taken_;
};

// Calls `act` for each loop, which returns nodes to stand ahead of it or behind it.
template <class Act>
void around_loops(Graph& graph, bool behind, const Act& act)
{
    std::vector<Node> nodes;
    for (Node& node : graph.nodes) {
        std::vector<Node> others;
        if (const auto loop = loop_of(node); loop && consistent(*loop))
            others = act(*loop);
        if (!behind)
            std::ranges::move(others, std::back_inserter(nodes));
        nodes.push_back(std::move(node));
        if (behind)
            std::ranges::move(others, std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
}

}  // namespace

void release_carried(Graph& graph)
{
    around_loops(graph, true, release);
}

void hoist_invariants(Graph& graph)
{
    around_loops(graph, false, [&](LoopNode loop) { return Hoist(graph, loop).take(); });
}

}  // namespace clprim::onnx
