#include "onnx/host_results.hpp"

#include <algorithm>
#include <cstring>

#include <clprim/copy.hpp>
#include <clprim/interop.hpp>

#include "onnx/ports.hpp"

namespace clprim::onnx {

HostResults::HostResults(const Graph& graph, const RunOptions& options)
    : graph_(graph), options_(options), wanted_(graph.output_ports.size()), taken_(graph.output_ports.size())
{
    if (!options.to_host)
        return;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        const std::string& name = graph.output_ports[i].name;
        const bool asked = options.outputs.empty() || std::ranges::find(options.outputs, name) != options.outputs.end();
        const bool again = find_port(graph.output_ports, name) != &graph.output_ports[i];
        wanted_[i] = asked && !again && !options.bound.contains(name);
    }
}

void HostResults::take(std::size_t i, const Value& result, Queue& queue)
{
    if (!wanted_[i] || taken_[i] || !result.is_tensor() || result.type() == ElementType::string)
        return;
    const std::size_t bytes = static_cast<std::size_t>(result.numel()) * size_of(storage_type(result.type()));
    void* const target = options_.to_host(graph_.output_ports[i].name, result.type(), result.shape());
    if (!target)
        return;
    taken_[i] = true;
    if (bytes == 0)
        return;
    if (result.on_host()) {
        std::memcpy(target, result.host_bytes(), bytes);
        return;
    }
    // Not Value::bytes, which keeps what it read: a recording writes to the same memory again.
    Tensor tensor = result.device(queue);
    if (!tensor.is_contiguous()) {
        const Tensor dense = queue.context().empty(tensor.shape, tensor.dtype, queue);
        copy(queue, tensor, dense);
        tensor = dense;
    }
    queue.read(*tensor.memory, static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype), target, bytes);
}

bool HostResults::has_in_place(std::size_t i, const Value& result, Queue& queue) const
{
    if (!wanted_[i] || taken_[i] || !result.is_tensor() || !result.owns_memory())
        return false;
    const Tensor tensor = result.device(queue);
    return tensor.is_contiguous() && host_address(tensor) &&
           static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype) >= options_.in_place_from;
}

}  // namespace clprim::onnx
