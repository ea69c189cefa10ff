#include <algorithm>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/onnx.hpp>

#include "onnx/call.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/surplus.hpp"

namespace clprim::onnx {

namespace {

// Host tensors larger than this are worth a launch.
constexpr std::int64_t host_limit = 4096;

// Whether the host's version of an operator is taken: all inputs are there and small, or one holds strings.
bool runs_on_host(const Node& node, const Frame& frame)
{
    bool small = true, any = false;
    for (const int slot : node.inputs) {
        if (slot == absent || frame[static_cast<std::size_t>(slot)].is_none())
            continue;
        const Value& value = frame[static_cast<std::size_t>(slot)];
        if (!value.is_tensor())
            return false;
        if (value.type() == ElementType::string)
            return true;
        small = small && value.on_host() && value.numel() <= host_limit;
        any = true;
    }
    return small && any;
}

std::string title(const Node& node)
{
    std::string text = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    if (!node.name.empty())
        text += " '" + node.name + "'";
    return text;
}

void run_node(const Node& node, const std::vector<int>& released, Frame& frame, Engine& engine)
{
    Call call(node, released, frame, engine);
    if (node.body) {
        std::vector<Value> arguments;
        for (const int slot : node.inputs)
            arguments.push_back(slot == absent ? Value() : frame[static_cast<std::size_t>(slot)]);
        const auto results = call.run(*node.body, arguments);
        for (std::size_t i = 0; i < call.outputs(); ++i)
            if (call.wants(i))
                call.output(i, results[i]);
        return;
    }
    const Handler handler = node.row->host && runs_on_host(node, frame) ? node.row->host : node.row->run;
    handler(call);
}

// Errors get the operator and name in front; their type stays.
void run_named(const Node& node, const std::vector<int>& released, Frame& frame, Engine& engine)
{
    try {
        run_node(node, released, frame, engine);
    } catch (const InvalidArgument& error) {
        throw InvalidArgument(title(node) + ": " + error.what());
    } catch (const NotSupported& error) {
        throw NotSupported(title(node) + ": " + error.what());
    }
}

}  // namespace

const Value& Call::input(std::size_t i) const
{
    check(has(i), "input ", i, " is missing");
    return value(i);
}

Tensor Call::contiguous(std::size_t i) const
{
    Tensor tensor = this->tensor(i);
    if (tensor.is_contiguous())
        return tensor;
    Tensor result = allocate(tensor.shape, tensor.dtype);
    copy(queue(), tensor, result);
    return result;
}

bool Call::overwritable(std::size_t i) const
{
    return has(i) && std::ranges::count(node_.inputs, node_.inputs[i]) == 1 &&
           std::ranges::find(released_, node_.inputs[i]) != released_.end() && value(i).owns_memory();
}

double Call::number(std::size_t i) const
{
    check(input(i).numel() == 1, "input ", i, " must have one element, has shape ", to_string(shape(i)));
    return input(i).to_doubles(queue())[0];
}

std::int64_t Call::integer(std::size_t i) const
{
    check(input(i).numel() == 1, "input ", i, " must have one element, has shape ", to_string(shape(i)));
    return ints(i)[0];
}

std::size_t Call::axis(std::int64_t given, std::size_t dims) const
{
    const auto count = static_cast<std::int64_t>(dims);
    check(given >= -count && given < count, "axis ", given, " is out of range for ", dims, " dimensions");
    return static_cast<std::size_t>(given < 0 ? given + count : given);
}

void Call::check_sizes(std::span<const std::int64_t> numbers, const char* what) const
{
    constexpr std::int64_t most = std::int64_t{1} << 40;
    for (const std::int64_t number : numbers)
        check(number >= -most && number <= most, what, " has ", number, ", which no tensor is large enough for");
}

void Call::output(std::size_t i, Value value)
{
    if (wants(i))
        frame_[static_cast<std::size_t>(node_.outputs[i])] = std::move(value);
}

Tensor Call::allocate(const Dims& shape, DataType dtype) const
{
    return queue().context().empty(shape, dtype, queue());
}

Tensor Call::allocate_like(const Tensor& other) const
{
    Tensor result = allocate(other.shape, other.dtype);
    if (other.is_non_overlapping_and_dense())
        result.strides = other.strides;
    return result;
}

Tensor Call::output_tensor(std::size_t i, const Dims& shape, ElementType type)
{
    Tensor result = allocate(shape, storage_type(type));
    output(i, Value(result, type));
    return result;
}

Tensor Call::placed(const Dims& shape, DataType dtype, bool channels_last) const
{
    const Placement& place = node_.place;
    if (place.buffer == absent || shape.size() < 3 || shape.size() > 5 || shape[1] != place.channels)
        return {};
    Dims whole = shape;
    whole[1] = place.total;
    Value& buffer = frame_[static_cast<std::size_t>(place.buffer)];
    if (buffer.is_none()) {
        Tensor fresh = allocate(whole, dtype);
        if (channels_last)
            fresh.strides = channels_last_strides(whole);
        buffer = Value(fresh);
    }
    const Tensor all = buffer.device(queue());
    if (all.shape != whole || all.dtype != dtype)
        return {};
    return all.slice(1, place.begin, place.begin + place.channels);
}

std::vector<Value> Call::run(const Graph& body, std::span<const Value> arguments) const
{
    check(body.outputs.size() >= outputs(), "the subgraph has ", body.outputs.size(), " outputs, ", outputs(),
          " are asked for");
    return evaluate(body, arguments);
}

std::vector<Value> Call::evaluate(const Graph& body, std::span<const Value> arguments) const
{
    return run_graph(body, arguments, &frame_, engine_);
}

void execute(const Graph& graph, Frame& frame, Engine& engine)
{
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (engine.is_cancelled()) [[unlikely]]
            throw Cancelled("the run was cancelled before " + title(node));
        const NodeProfile::Scope scope(engine.profile, node);
        run_named(node, graph.released[i], frame, engine);
        for (const int slot : graph.released[i])
            frame[static_cast<std::size_t>(slot)] = Value();
        if (engine.surplus) [[unlikely]]
            engine.surplus->after(graph, i, engine.queue);
    }
}

std::vector<Value> run_graph(const Graph& graph, std::span<const Value> arguments, const Frame* outer, Engine& engine)
{
    // A function may be called with fewer arguments than it declares.
    require(arguments.size() <= graph.inputs.size(), "the subgraph takes ", graph.inputs.size(), " inputs, got ",
            arguments.size());
    Frame frame(graph.slots.size());
    for (const auto& [slot, value] : graph.constants)
        frame[static_cast<std::size_t>(slot)] = value;
    for (const auto& [from, to] : graph.captures)
        frame[static_cast<std::size_t>(to)] = (*outer)[static_cast<std::size_t>(from)];
    for (std::size_t i = 0; i < arguments.size(); ++i)
        if (Value& input = frame[static_cast<std::size_t>(graph.inputs[i])]; input.is_none() || !arguments[i].is_none())
            input = arguments[i];                         // an input with an initializer may be left out
    execute(graph, frame, engine);
    std::vector<Value> results;
    for (const int slot : graph.outputs)
        results.push_back(slot == absent ? Value() : frame[static_cast<std::size_t>(slot)]);
    return results;
}

std::vector<GraphRef> subgraphs(const Node& node)
{
    std::vector<GraphRef> result;
    for (const auto& [name, attribute] : node.attributes)
        if (const GraphRef* graph = std::get_if<GraphRef>(&attribute))
            result.push_back(*graph);
    if (node.body)
        result.push_back(node.body);
    return result;
}

Value constant_value(const Node& node)
{
    const auto list = [](const auto& elements) { return Dims{static_cast<std::int64_t>(elements.size())}; };
    for (const auto& [name, attribute] : node.attributes) {
        if (const auto* value = std::get_if<Value>(&attribute))
            return *value;
        if (const auto* integer = std::get_if<std::int64_t>(&attribute))
            return Value::scalar(*integer);
        if (const auto* real = std::get_if<float>(&attribute))
            return Value::scalar(*real);
        if (const auto* text = std::get_if<std::string>(&attribute))
            return Value::strings({}, {*text});
        if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute))
            return Value::ints(*integers);
        if (const auto* reals = std::get_if<std::vector<float>>(&attribute))
            return Value::copy_of(ElementType::float32, list(*reals), reals->data());
        if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute))
            return Value::strings(list(*texts), *texts);
    }
    return {};
}

void plan(Graph& graph)
{
    std::vector<std::size_t> last(graph.slots.size(), graph.nodes.size());
    std::vector<bool> kept(graph.slots.size());
    for (const int slot : graph.outputs)
        if (slot != absent)
            kept[static_cast<std::size_t>(slot)] = true;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        Node& node = graph.nodes[i];
        const auto uses = [&](int slot) {
            if (slot != absent)
                last[static_cast<std::size_t>(slot)] = i;
        };
        for (const int slot : node.inputs)
            uses(slot);
        for (const int slot : node.outputs)
            uses(slot);
        uses(node.place.buffer);
        for (const GraphRef& inner : subgraphs(node)) {
            for (const auto& capture : inner->captures)
                uses(capture.first);
            plan(*inner);
        }
    }
    graph.released.assign(graph.nodes.size(), {});
    for (std::size_t slot = 0; slot < last.size(); ++slot)
        if (!kept[slot] && last[slot] < graph.nodes.size())
            graph.released[last[slot]].push_back(static_cast<int>(slot));
}

}  // namespace clprim::onnx
