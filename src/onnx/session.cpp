#include <algorithm>
#include <climits>
#include <iostream>
#include <set>

#include <clprim/onnx.hpp>

#include "onnx/call.hpp"
#include "onnx/optimize.hpp"

namespace clprim {

using namespace onnx;

namespace {

std::vector<ModelPort> model_ports(const std::vector<Port>& ports)
{
    std::vector<ModelPort> result;
    for (const Port& port : ports)
        result.push_back({port.name, port.kind == Port::Kind::tensor, port.type, port.has_shape, port.shape});
    return result;
}

// Whether a caller must give an input: it has no initializer.
bool is_required(const Graph& graph, std::size_t input)
{
    return std::ranges::none_of(graph.constants, [&](const auto& constant) { return constant.first == graph.inputs[input]; });
}

std::vector<Port> required_inputs(const Graph& graph)
{
    std::vector<Port> result;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (is_required(graph, i))
            result.push_back(graph.input_ports[i]);
    return result;
}

std::string name_in_domain(const Node& node) { return (node.domain.empty() ? "" : node.domain + ".") + node.op_type; }

void collect_unsupported(const Graph& graph, std::map<std::string, int>& missing)
{
    for (const Node& node : graph.nodes) {
        if (!node.body && !find_operator(node.domain, node.op_type, node.opset))
            ++missing[name_in_domain(node)];
        for (const GraphRef& inner : subgraphs(node))
            collect_unsupported(*inner, missing);
    }
}

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

std::size_t bytes_of(const Graph& graph)
{
    std::size_t bytes = 0;
    for (const auto& [slot, value] : graph.constants)
        if (value.is_tensor() && value.type() != ElementType::string)
            bytes += static_cast<std::size_t>(value.numel()) * size_of(storage_type(value.type()));
    for (const Node& node : graph.nodes)
        for (const GraphRef& inner : subgraphs(node))
            bytes += bytes_of(*inner);
    return bytes;
}

bool has_port(const std::vector<Port>& ports, const std::string& name)
{
    return std::ranges::find(ports, name, &Port::name) != ports.end();
}

std::string names_of(const std::vector<Port>& ports)
{
    std::string text;
    for (const Port& port : ports)
        text += (text.empty() ? "'" : ", '") + port.name + "'";
    return text.empty() ? "none" : text;
}

std::string expected(const Port& port)
{
    std::string text = std::string(name_of(port.type));
    if (!port.has_shape)
        return text;
    text += " [";
    for (std::size_t i = 0; i < port.shape.size(); ++i) {
        const auto* size = std::get_if<std::int64_t>(&port.shape[i]);
        const std::string dimension = size ? std::to_string(*size) : std::get<std::string>(port.shape[i]);
        text += (i ? ", " : "") + (dimension.empty() ? "?" : dimension);
    }
    return text + "]";
}

// Exporters give sizes that have nothing to do with each other one name, so a mismatch is worth a word, once for each
// name of a process: operators check what they need.
void warn_of_sizes(const Port& port, std::size_t axis, std::int64_t expected, std::int64_t got)
{
    static std::mutex mutex;
    static auto* seen = new std::set<std::pair<std::string, std::size_t>>;
    const std::lock_guard lock(mutex);
    if (seen->emplace(port.name, axis).second)
        std::cerr << "clprim: warning: size " << std::get<std::string>(port.shape[axis]) << " is " << got << " in input '"
                  << port.name << "' and " << expected << " elsewhere\n";
}

// A declared shape binds names of sizes, for all inputs together.
void check_input(const Port& port, const Value& value, std::map<std::string, std::int64_t>& sizes)
{
    if (port.kind != Port::Kind::tensor) {
        require(port.kind != Port::Kind::sequence || value.is_sequence(), "input '", port.name, "' must be a sequence");
        return;
    }
    require(value.is_tensor(), "input '", port.name, "' must be a tensor");
    const auto misfit = [&] {
        throw InvalidArgument(detail::concat("input '", port.name, "' must be ", expected(port), ", got ",
                                             name_of(value.type()), " ", to_string(value.shape())));
    };
    if (port.type != ElementType::undefined && value.type() != port.type)
        misfit();
    if (!port.has_shape)
        return;
    if (value.dim() != port.shape.size())
        misfit();
    for (std::size_t i = 0; i < value.dim(); ++i) {
        if (const auto* size = std::get_if<std::int64_t>(&port.shape[i])) {
            if (*size > 0 && *size != value.shape()[i])
                misfit();
        } else if (const auto& name = std::get<std::string>(port.shape[i]); !name.empty() && name != "?") {
            const auto [bound, fresh] = sizes.emplace(name, value.shape()[i]);
            if (!fresh && bound->second != value.shape()[i])
                warn_of_sizes(port, i, bound->second, value.shape()[i]);
        }
    }
}

// A tensor of another context comes over through the host.
Value on_context(const Value& value, Context& context)
{
    if (!value.is_tensor() || !value.on_device() || value.on_host())
        return value;
    Context& owner = *value.device(context.queue()).memory->context;
    if (&owner == &context)
        return value;
    return Value::copy_of(value.type(), value.shape(), value.bytes(owner.queue()));
}

}  // namespace

std::vector<ModelPort> OnnxModel::inputs() const { return model_ports(required_inputs(*model_->graph)); }
std::vector<ModelPort> OnnxModel::outputs() const { return model_ports(model_->graph->output_ports); }
const std::map<std::string, std::int64_t>& OnnxModel::opsets() const { return model_->opsets; }
const std::map<std::string, std::string>& OnnxModel::metadata() const { return model_->metadata; }
const std::string& OnnxModel::producer() const { return model_->producer; }

std::map<std::string, int> OnnxModel::unsupported() const
{
    std::map<std::string, int> missing;
    collect_unsupported(*model_->graph, missing);
    return missing;
}

std::string OnnxModel::unsupported_reason(const std::string& name) const
{
    std::string reason = "clprim has no such operator";
    for_each_node(*model_->graph, [&](const Node& node) {
        if (name_in_domain(node) != name || node.body)
            return;
        int first = INT_MAX;
        for (const OperatorRow& row : all_operators())
            if (row.domain == node.domain && row.name == node.op_type)
                first = std::min(first, row.since);
        if (first != INT_MAX && first > node.opset)
            reason = detail::concat("known from operator set ", first, " on, the model asks for ", node.opset);
    });
    return reason;
}

std::map<std::string, int> OnnxModel::operators() const
{
    std::map<std::string, int> counts;
    for_each_node(*model_->graph, [&](const Node& node) { ++counts[name_in_domain(node)]; });
    return counts;
}

std::size_t OnnxModel::constant_bytes() const { return bytes_of(*model_->graph); }

struct Session::State {
    State(const OnnxModel& model, Context& context_, const SessionOptions& options)
        : context(context_), engine{context.queue(), draws, options.profile ? &profile : nullptr},
          graph(prepare(*model.model(), engine, options.optimize))
    {
    }

    Context& context;
    std::atomic<std::uint64_t> draws{0};
    Profile profile;
    Engine engine;
    GraphRef graph;
};

Session::Session(const OnnxModel& model, Context& context, const SessionOptions& options)
{
    const auto missing = model.unsupported();
    if (!missing.empty()) {
        std::string text = "the model needs operators that clprim lacks:";
        for (const auto& [name, count] : missing)
            text += " " + name + " (" + std::to_string(count) + ")";
        throw NotSupported(text);
    }
    state_ = std::make_unique<State>(model, context, options);
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

Session::Values Session::run(const Values& inputs, std::span<const std::string> outputs)
{
    const Graph& graph = *state_->graph;
    std::vector<Value> arguments(graph.inputs.size());
    std::map<std::string, std::int64_t> sizes;
    for (const auto& [name, value] : inputs)
        require(has_port(graph.input_ports, name), "the model has no input '", name, "'; its inputs are ",
                names_of(graph.input_ports));
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const Port& port = graph.input_ports[i];
        const auto given = inputs.find(port.name);
        if (given == inputs.end()) {
            require(port.kind == Port::Kind::optional || !is_required(graph, i), "input '", port.name, "' (", expected(port),
                    ") is missing");
            continue;
        }
        if (port.kind != Port::Kind::optional)
            check_input(port, given->second, sizes);
        arguments[i] = on_context(given->second, state_->context);
    }
    for (const std::string& name : outputs)
        require(has_port(graph.output_ports, name),
                "the model has no output '", name, "'; its outputs are ", names_of(graph.output_ports));

    const std::vector<Value> results = run_graph(graph, arguments, nullptr, state_->engine);
    Values values;
    for (std::size_t i = 0; i < results.size(); ++i)
        if (outputs.empty() || std::ranges::find(outputs, graph.output_ports[i].name) != outputs.end())
            values.emplace(graph.output_ports[i].name, results[i]);
    return values;
}

std::vector<ModelPort> Session::inputs() const { return model_ports(required_inputs(*state_->graph)); }
std::vector<ModelPort> Session::outputs() const { return model_ports(state_->graph->output_ports); }
Context& Session::context() const { return state_->context; }
Queue& Session::queue() const { return state_->engine.queue; }

std::vector<NodeTime> Session::profile() const
{
    std::vector<NodeTime> result;
    std::lock_guard lock(state_->profile.mutex);
    for (const Node& node : state_->graph->nodes)
        if (const auto entry = state_->profile.entries.find(&node); entry != state_->profile.entries.end())
            result.push_back({node.name, node.op_type, entry->second.milliseconds, entry->second.calls});
    return result;
}

}  // namespace clprim
