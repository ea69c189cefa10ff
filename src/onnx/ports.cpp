#include "onnx/ports.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include <clprim/error.hpp>

#include "core/runtime.hpp"

namespace clprim::onnx {

namespace {

// Exporters give sizes that have nothing to do with each other one name, so a mismatch is worth a word, once for each
// name and input of a process: operators check what they need.
void warn_of_sizes(const Port& port, std::size_t axis, std::int64_t expected, std::int64_t got)
{
    static std::mutex mutex;
    static auto* seen = new std::set<std::pair<std::string, std::string>>;
    const std::string& size = std::get<std::string>(port.shape[axis]);
    const std::lock_guard lock(mutex);
    if (seen->emplace(size, port.name).second)
        clprim::detail::log(LogLevel::warning, clprim::detail::concat("size ", size, " is ", got, " in input '",
                                                                      port.name, "' and ", expected, " elsewhere"));
}

}  // namespace

std::vector<ModelPort> model_ports(const std::vector<Port>& ports)
{
    std::vector<ModelPort> result;
    for (const Port& port : ports)
        result.push_back({port.name, port.kind == Port::Kind::tensor, port.type, port.has_shape, port.shape});
    return result;
}

bool is_required(const Graph& graph, std::size_t input)
{
    return std::ranges::none_of(graph.constants,
                                [&](const auto& constant) { return constant.first == graph.inputs[input]; });
}

std::vector<Port> required_inputs(const Graph& graph)
{
    std::vector<Port> result;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (is_required(graph, i))
            result.push_back(graph.input_ports[i]);
    return result;
}

const Port* find_port(const std::vector<Port>& ports, const std::string& name)
{
    const auto port = std::ranges::find(ports, name, &Port::name);
    return port == ports.end() ? nullptr : &*port;
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

void check_input(const Port& port, const Value& value, std::map<std::string, std::int64_t>& sizes)
{
    if (port.kind == Port::Kind::map) {
        const auto wanted = detail::concat("a map of ", name_of(port.key), " to ", name_of(port.type));
        require(value.is_map(), "input '", port.name, "' must be ", wanted);
        require(value.keys().numel() == 0 || (value.keys().type() == port.key && value.type() == port.type), "input '",
                port.name, "' must be ", wanted, ", got one of ", name_of(value.keys().type()), " to ",
                name_of(value.type()));
        return;
    }
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

void fix_sizes(Graph& graph, const std::map<std::string, std::int64_t>& sizes)
{
    std::set<std::string> names;
    for (Port& port : graph.input_ports)
        for (auto& size : port.shape) {
            const auto* name = std::get_if<std::string>(&size);
            if (!name || name->empty())
                continue;
            names.insert(*name);
            if (const auto given = sizes.find(*name); given != sizes.end())
                size = given->second;
        }
    for (const auto& [name, size] : sizes) {
        require(size > 0, "size '", name, "' must be positive, got ", size);
        std::string known;
        for (const std::string& other : names)
            known += (known.empty() ? "'" : ", '") + other + "'";
        require(names.contains(name), "no input of the model has a size '", name, "'; its dynamic sizes are ",
                known.empty() ? "none" : known);
    }
}

}  // namespace clprim::onnx
