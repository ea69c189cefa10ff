#include "onnx/gradient.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include <clprim/error.hpp>

namespace clprim::onnx {

namespace {

constexpr int written_set = 20;                      // operator set of the nodes that are made

// What a Gradient node asks for, in slots of the graph that it stands in.
struct Target {
    std::vector<int> xs, zs;
    int y = absent;
};

std::string title(const Node& node) { return (node.domain.empty() ? "" : node.domain + ".") + node.op_type; }

class Differentiation {
public:
    Differentiation(const Graph& graph, const Node& gradient, const Target& target, std::size_t most_nodes)
        : graph_(graph), target_(target), most_nodes_(most_nodes), body_(std::make_shared<Graph>())
    {
        std::vector<int> named = target.xs;
        named.insert(named.end(), target.zs.begin(), target.zs.end());
        reuse_ = named == gradient.inputs;
        body_->name = "gradient";
        for (const int slot : named) {
            body_->inputs.push_back(body_->add_slot(graph.slots[static_cast<std::size_t>(slot)]));
            require(own_.emplace(slot, body_->inputs.back()).second, "xs and zs name '",
                    graph.slots[static_cast<std::size_t>(slot)], "' twice");
        }
        active_.assign(body_->slots.size(), false);
        std::fill_n(active_.begin(), target.xs.size(), true);
    }

    GraphRef run()
    {
        record_forward();
        const int y = local(target_.y);
        propagate(y);
        for (const int x : target_.xs) {
            const int slot = own_.at(x), total = gradient_of(slot);
            body_->outputs.push_back(total != absent ? total : tools({}).filled_like(0, slot));
        }
        drop_unread();
        return body_;
    }

private:
    // Outer values become captures.
    int local(int slot)
    {
        if (slot == absent)
            return absent;
        if (const auto found = own_.find(slot); found != own_.end())
            return found->second;
        return own_[slot] = capture(slot);
    }

    int capture(int slot)
    {
        body_->captures.emplace_back(slot, body_->add_slot(graph_.slots[static_cast<std::size_t>(slot)]));
        return body_->captures.back().second;
    }

    // The nodes between the named values and y.
    void record_forward()
    {
        std::vector<bool> read(graph_.slots.size());
        const auto reads = [&](int slot) {
            if (slot != absent && !own_.contains(slot))
                read[static_cast<std::size_t>(slot)] = true;
        };
        reads(target_.y);
        std::vector<const Node*> needed;
        for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
            const auto is_read = [&](int slot) { return slot != absent && read[static_cast<std::size_t>(slot)]; };
            if (std::ranges::none_of(node->outputs, is_read))
                continue;
            needed.push_back(&*node);
            std::ranges::for_each(node->inputs, reads);
            for (const GraphRef& inner : subgraphs(*node))
                for (const auto& capture : inner->captures)
                    reads(capture.first);
        }
        std::set<int> depending(target_.xs.begin(), target_.xs.end());
        depending.insert(target_.zs.begin(), target_.zs.end());
        for (auto node = needed.rbegin(); node != needed.rend(); ++node)
            if (depends(**node, depending)) {
                depending.insert((*node)->outputs.begin(), (*node)->outputs.end());
                record(**node, [&](int slot) { return local(slot); }, own_, reuse_);
            }
    }

    static bool depends(const Node& node, const std::set<int>& on)
    {
        if (std::ranges::any_of(node.inputs, [&](int slot) { return slot != absent && on.contains(slot); }))
            return true;
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                if (on.contains(capture.first))
                    return true;
        return false;
    }

    // Puts a node on the tape with slots of the body. Its results are computed there too, unless the outer graph has
    // them.
    void record(const Node& node, const auto& slot_of, std::map<int, int>& own, bool reuse)
    {
        require(++count_ <= most_nodes_, "the gradient needs more than ", most_nodes_, " nodes");
        if (node.body)
            return record_function(node, slot_of, own);
        Node copy = node;
        for (int& slot : copy.inputs)
            slot = slot_of(slot);
        for (auto& [name, attribute] : copy.attributes)
            if (auto* inner = std::get_if<GraphRef>(&attribute)) {
                *inner = std::make_shared<Graph>(**inner);
                for (auto& capture : (*inner)->captures)
                    capture.first = slot_of(capture.first);
            }
        for (int& slot : copy.outputs)
            if (slot != absent) {
                const int result = reuse ? capture(slot) : body_->add_slot("");
                own.emplace(slot, result);               // a named value stays what was given
                slot = result;
            }
        active_.resize(body_->slots.size());
        if (is_active(copy) && !has_no_gradient(copy))
            for (const int slot : copy.outputs)
                if (slot != absent)
                    active_[static_cast<std::size_t>(slot)] = true;
        if (!reuse)
            body_->nodes.push_back(copy);
        tape_.push_back(std::move(copy));
    }

    // Functions, and gradients of lower order, are taken apart.
    void record_function(const Node& call, const auto& slot_of, std::map<int, int>& outer)
    {
        const Graph& function = *call.body;
        std::map<int, int> own;
        for (const auto& [slot, value] : function.constants) {
            own[slot] = body_->add_slot("");
            body_->constants.emplace_back(own[slot], value);
        }
        for (std::size_t i = 0; i < function.inputs.size(); ++i) {
            const int given = i < call.inputs.size() ? slot_of(call.inputs[i]) : absent;
            if (given != absent || !own.contains(function.inputs[i]))
                own[function.inputs[i]] = given;
        }
        for (const auto& [from, to] : function.captures)
            own[to] = slot_of(from);
        const std::function<int(int)> inside = [&](int slot) { return slot == absent ? absent : own.at(slot); };
        for (const Node& node : function.nodes)
            record(node, inside, own, false);
        for (std::size_t i = 0; i < call.outputs.size() && i < function.outputs.size(); ++i)
            if (call.outputs[i] != absent)
                outer[call.outputs[i]] = inside(function.outputs[i]);
    }

    bool is_active(int slot) const { return slot != absent && active_[static_cast<std::size_t>(slot)]; }

    bool is_active(const Node& node) const
    {
        const auto active = [&](int slot) { return is_active(slot); };
        if (std::ranges::any_of(node.inputs, active))
            return true;
        for (const GraphRef& inner : subgraphs(node))
            for (const auto& capture : inner->captures)
                if (active(capture.first))
                    return true;
        return false;
    }

    // The sum of all that was given to a slot, or absent.
    int gradient_of(int slot)
    {
        std::vector<int>& parts = parts_[slot];
        if (parts.size() > 1)
            parts = {tools({}).make("Sum", parts)};
        return parts.empty() ? absent : parts[0];
    }

    void propagate(int y)
    {
        active_.resize(body_->slots.size());
        if (!is_active(y))
            return;
        parts_[y].push_back(tools({}).filled_like(1, y));
        for (auto node = tape_.rbegin(); node != tape_.rend(); ++node) {
            require(body_->nodes.size() <= most_nodes_, "the gradient needs more than ", most_nodes_, " nodes");
            std::vector<int> gradients;
            bool any = false;
            for (const int slot : node->outputs) {
                gradients.push_back(is_active(slot) ? gradient_of(slot) : absent);
                any = any || gradients.back() != absent;
            }
            if (any)
                go_back(*node, std::move(gradients));
        }
    }

    void go_back(const Node& node, std::vector<int> gradients)
    {
        Backward step(*body_, node, gradients);
        if (const GradientRule rule = gradient_rule(node)) {
            rule(step);
        } else {
            std::erase(gradients, absent);
            const int missing = step.make("", gradients);
            body_->nodes.back().op_type = "gradient of " + title(node);
            for (std::size_t i = 0; i < node.inputs.size(); ++i)
                step.give(i, missing);
        }
        for (std::size_t i = 0; i < node.inputs.size(); ++i)
            if (is_active(node.inputs[i]) && step.result(i) != absent)
                parts_[node.inputs[i]].push_back(step.result(i));
    }

    Backward tools(std::vector<int> gradients) { return Backward(*body_, nothing_, std::move(gradients)); }

    // Rules make all gradients of a node, whoever needs them.
    void drop_unread()
    {
        std::set<int> read(body_->outputs.begin(), body_->outputs.end());
        std::vector<Node> kept;
        for (auto node = body_->nodes.rbegin(); node != body_->nodes.rend(); ++node) {
            if (std::ranges::none_of(node->outputs, [&](int slot) { return slot != absent && read.contains(slot); }))
                continue;
            read.insert(node->inputs.begin(), node->inputs.end());
            for (const GraphRef& inner : subgraphs(*node))
                for (const auto& capture : inner->captures)
                    read.insert(capture.first);
            kept.push_back(std::move(*node));
        }
        body_->nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
        std::erase_if(body_->captures, [&](const auto& capture) { return !read.contains(capture.second); });
        std::erase_if(body_->constants, [&](const auto& constant) { return !read.contains(constant.first); });
    }

    const Graph& graph_;
    const Target& target_;
    std::size_t most_nodes_, count_ = 0;
    GraphRef body_;
    bool reuse_ = false;
    std::map<int, int> own_;                         // slots of the graph in the body
    std::vector<Node> tape_;
    std::vector<bool> active_;                       // slots of the body through which gradients pass
    std::map<int, std::vector<int>> parts_;          // what a slot's gradient is the sum of
    Node nothing_;
};

}  // namespace

std::int64_t Backward::integer(std::string_view name, std::int64_t otherwise) const
{
    return attribute_of(node_, name, otherwise);
}

float Backward::number(std::string_view name, float otherwise) const { return attribute_of(node_, name, otherwise); }

int Backward::make(const char* op, std::vector<int> inputs, Attributes attributes, const char* domain)
{
    Node made;
    made.op_type = op;
    made.domain = domain;
    made.name = "gradient of " + (node_.name.empty() ? title(node_) : node_.name);
    made.opset = made.domain.empty() ? written_set : 1;
    made.inputs = std::move(inputs);
    made.attributes = std::move(attributes);
    made.outputs = {body_.add_slot("")};
    body_.nodes.push_back(std::move(made));
    return body_.nodes.back().outputs[0];
}

int Backward::again(Attributes attributes)
{
    const int result = make(node_.op_type.c_str(), node_.inputs, std::move(attributes), node_.domain.c_str());
    body_.nodes.back().opset = node_.opset;
    return result;
}

int Backward::constant(Value value)
{
    body_.constants.emplace_back(body_.add_slot(""), std::move(value));
    return body_.constants.back().first;
}

int Backward::scalar(double value, int like)
{
    // What float32 rounds off matters in float64, which not every device has.
    const auto high = static_cast<float>(value), low = static_cast<float>(value - static_cast<double>(high));
    const auto part = [&](float number) { return make("CastLike", {constant(Value::scalar(number)), like}); };
    return low == 0 ? part(high) : add(part(high), part(low));
}

int Backward::reshaped_like(int a, int like)
{
    return make("Reshape", {a, make("Shape", {like})}, {{"allowzero", std::int64_t{1}}});
}

int Backward::expanded_like(int a, int like) { return make("Expand", {a, make("Shape", {like})}); }

int Backward::summed_like(int a, int like) { return make("SumLike", {a, like}, {}, "clprim"); }

int Backward::filled_like(double value, int like) { return expanded_like(scalar(value, like), like); }

GraphRef differentiate(const Graph& graph, const Node& gradient, const std::function<int(const std::string&)>& slot_of,
                       std::size_t most_nodes)
{
    const auto known_slot = [&](const std::string& name) {
        const int slot = slot_of(name);
        require(slot != absent, "'", name, "' is written by no node");
        return slot;
    };
    const auto named = [&](const char* list) {
        std::vector<int> slots;
        const auto names = attribute_of<std::vector<std::string>>(gradient, list, {});
        std::ranges::transform(names, std::back_inserter(slots), known_slot);
        return slots;
    };
    require(gradient.attributes.contains("y"), "attribute y is missing");
    const Target target{named("xs"), named("zs"), known_slot(attribute_of<std::string>(gradient, "y", ""))};
    require(gradient.inputs.size() == target.xs.size() + target.zs.size(), "got ", gradient.inputs.size(),
            " inputs, expected one for each of xs and zs (", target.xs.size() + target.zs.size(), ")");
    require(gradient.outputs.size() <= target.xs.size(), "got ", gradient.outputs.size(),
            " outputs, expected one for each of xs (", target.xs.size(), ")");
    return Differentiation(graph, gradient, target, most_nodes).run();
}

}  // namespace clprim::onnx
