#include "onnx/rewriter.hpp"

#include <algorithm>

#include "onnx/call.hpp"

namespace clprim::onnx {

void Rewriter::index()
{
    readers_.assign(graph_.slots.size(), {});
    exposed_.assign(graph_.slots.size(), false);
    writers_.assign(graph_.slots.size(), std::nullopt);
    constants_.clear();
    for (std::size_t i = 0; i < graph_.constants.size(); ++i)
        constants_[graph_.constants[i].first] = i;
    for (const int slot : graph_.inputs)               // an input's initializer is a default only
        constants_.erase(slot);
    for (const int slot : graph_.outputs)
        if (slot != absent)
            exposed_[static_cast<std::size_t>(slot)] = true;
    for (std::size_t i = 0; i < size(); ++i) {
        if (dead_[i])
            continue;
        for (const int slot : node(i).inputs)
            if (slot != absent)
                if (auto& list = readers_[static_cast<std::size_t>(slot)]; list.empty() || list.back() != i)
                    list.push_back(i);
        for (const int slot : node(i).outputs)
            if (slot != absent)
                writers_[static_cast<std::size_t>(slot)] = i;
        for (const GraphRef& inner : subgraphs(node(i)))
            for (const auto& capture : inner->captures)
                exposed_[static_cast<std::size_t>(capture.first)] = true;
    }
}

Node* Rewriter::only_reader(int slot)
{
    if (slot == absent || exposed(slot) || readers(slot).size() != 1)
        return nullptr;
    return &node(readers(slot)[0]);
}

const Node* Rewriter::writer(int slot) const
{
    const auto place = slot == absent ? std::nullopt : writers_[static_cast<std::size_t>(slot)];
    return place ? &graph_.nodes[*place] : nullptr;
}

const Value* Rewriter::constant(int slot) const
{
    const auto found = constants_.find(slot);
    return found == constants_.end() ? nullptr : &graph_.constants[found->second].second;
}

int Rewriter::add_constant(Value value)
{
    const int slot = graph_.add_slot("");
    graph_.constants.emplace_back(slot, std::move(value));
    index();
    return slot;
}

void Rewriter::replace(const std::vector<std::size_t>& old, Node replacement)
{
    for (const std::size_t i : old)
        dead_[i] = true;
    const std::size_t last = *std::ranges::max_element(old);
    node(last) = std::move(replacement);
    dead_[last] = false;
    index();
}

Node own_node(std::string op_type, std::string name, std::vector<int> inputs, std::vector<int> outputs)
{
    Node node;
    node.domain = "clprim";
    node.op_type = std::move(op_type);
    node.opset = 1;
    node.name = std::move(name);
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    node.row = find_operator(node.domain, node.op_type, node.opset);
    return node;
}

Node Rewriter::own_node_for(std::string op_type, const std::vector<std::size_t>& members, std::vector<int> inputs) const
{
    const Node &first = graph_.nodes[members.front()], &last = graph_.nodes[members.back()];
    Node node = own_node(std::move(op_type), first.name + ".." + last.name, std::move(inputs), last.outputs);
    node.attributes["operators"] = body_of(members, node.inputs);
    return node;
}

GraphRef Rewriter::body_of(const std::vector<std::size_t>& members, const std::vector<int>& inputs) const
{
    std::vector<Node> nodes;
    for (const std::size_t i : members)
        nodes.push_back(graph_.nodes[i]);
    return body_of(std::move(nodes), inputs);
}

GraphRef Rewriter::body_of(std::vector<Node> members, const std::vector<int>& inputs) const
{
    auto body = std::make_shared<Graph>();
    std::map<int, int> slots;
    const auto local = [&](int slot) {
        if (slot == absent)
            return absent;
        const auto [found, fresh] = slots.emplace(slot, 0);
        if (fresh)
            found->second = body->add_slot(graph_.slots[static_cast<std::size_t>(slot)]);
        return found->second;
    };
    for (const int slot : inputs)
        body->inputs.push_back(slot == absent ? body->add_slot("") : local(slot));
    for (Node& node : members) {
        for (int& slot : node.inputs) {
            const bool known = slot == absent || slots.contains(slot);
            const Value* fixed = known ? nullptr : constant(slot);
            slot = local(slot);
            if (fixed)
                body->constants.emplace_back(slot, *fixed);
        }
        for (int& slot : node.outputs)
            slot = local(slot);
        body->nodes.push_back(std::move(node));
    }
    body->outputs = {body->nodes.back().outputs[0]};
    return body;
}

void Rewriter::finish()
{
    std::vector<Node> alive;
    for (std::size_t i = 0; i < size(); ++i)
        if (!dead_[i])
            alive.push_back(std::move(node(i)));
    graph_.nodes = std::move(alive);
    dead_.assign(size(), false);
    index();
}

}  // namespace clprim::onnx
