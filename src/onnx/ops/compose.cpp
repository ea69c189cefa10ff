#include "onnx/ops/compose.hpp"

namespace clprim::onnx {

namespace {

constexpr int operator_set = 23;

}  // namespace

std::vector<Value> run_operator(const Call& call, std::string_view name, std::vector<Value> inputs,
                                Attributes attributes, std::size_t outputs,
                                std::vector<std::shared_ptr<Prepared>> prepared)
{
    Graph graph;
    Node node;
    const std::size_t dot = name.rfind('.');
    if (dot != name.npos) {
        node.domain = name.substr(0, dot);
        name.remove_prefix(dot + 1);
    }
    node.op_type = name;
    node.opset = node.domain.empty() ? operator_set : 1;
    node.row = find_operator(node.domain, name, node.opset);
    call.check(node.row != nullptr, "there is no operator ", name);
    node.attributes = std::move(attributes);
    node.prepared = std::move(prepared);
    Frame frame = std::move(inputs);
    for (std::size_t i = 0; i < frame.size(); ++i)
        node.inputs.push_back(frame[i].is_none() ? absent : static_cast<int>(i));
    for (std::size_t i = 0; i < outputs; ++i) {
        node.outputs.push_back(static_cast<int>(frame.size()));
        frame.emplace_back();
    }
    const std::size_t first = frame.size() - outputs;
    graph.nodes.push_back(std::move(node));
    graph.released.resize(1);
    Engine engine{call.queue(), call.engine().draws};              // the time counts for the node that asks
    execute(graph, frame, engine);
    return {frame.begin() + static_cast<std::ptrdiff_t>(first), frame.end()};
}

Value Compose::with_inputs(std::string_view name, const Value& x, std::span<const std::size_t> inputs,
                           Attributes attributes) const
{
    const auto& known = call_.node().prepared;
    std::vector<Value> values{x};
    std::vector<std::shared_ptr<Prepared>> prepared{nullptr};
    for (const std::size_t i : inputs) {
        values.push_back(input(i));
        prepared.push_back(i < known.size() ? known[i] : nullptr);
    }
    return run_operator(call_, name, std::move(values), std::move(attributes), 1, std::move(prepared))[0];
}

Value Compose::cast(const Value& x, ElementType type) const
{
    return x.type() == type ? x : (*this)("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}});
}

Value Compose::number(double value, ElementType type) const
{
    return cast(Value::scalar(static_cast<float>(value)), type);
}

Attributes Compose::attributes(std::initializer_list<std::string_view> names) const
{
    Attributes result;
    for (const std::string_view name : names)
        if (const auto found = call_.node().attributes.find(name); found != call_.node().attributes.end())
            result.insert(*found);
    return result;
}

Value Compose::transposed(const Value& x, std::vector<std::int64_t> order) const
{
    return (*this)("Transpose", {x}, {{"perm", std::move(order)}});
}

Value Compose::to_channels_first(const Value& x) const
{
    const auto dims = static_cast<std::int64_t>(x.dim());
    std::vector<std::int64_t> order{0, dims - 1};
    for (std::int64_t d = 1; d + 1 < dims; ++d)
        order.push_back(d);
    return transposed(x, std::move(order));
}

Value Compose::to_channels_last(const Value& x) const
{
    const auto dims = static_cast<std::int64_t>(x.dim());
    std::vector<std::int64_t> order{0};
    for (std::int64_t d = 2; d < dims; ++d)
        order.push_back(d);
    order.push_back(1);
    return transposed(x, std::move(order));
}

}  // namespace clprim::onnx
