#include "onnx/surplus.hpp"

#include <algorithm>

#include <clprim/error.hpp>

#include "core/hollow.hpp"
#include "core/system.hpp"
#include "onnx/constants.hpp"

namespace clprim::onnx {

namespace {

constexpr std::size_t trimmed_by = std::size_t{4} << 20;    // what left the host goes back to the system in such steps

}  // namespace

Surplus::Surplus(Graph& graph) : graph_(graph)
{
    const std::set<int> kept = shared_slots(graph);
    for (std::size_t i = 0; i < graph.constants.size(); ++i) {
        const auto& [slot, value] = graph.constants[i];
        if (!kept.contains(slot) && value.is_tensor() && value.type() != ElementType::string &&
            value.numel() > large_constant)
            constants_[slot].index = i;
    }
}

// What nodes asked for in runs before this one says nothing of this one.
void Surplus::begin()
{
    for (const Node& node : graph_.nodes)
        for (const auto& place : node.prepared)
            if (place)
                place->take_replaced();
}

void Surplus::after(const Graph& graph, std::size_t node, Queue& queue)
{
    if (&graph != &graph_)
        return;
    const Node& ran = graph.nodes[node];
    for (std::size_t i = 0; i < ran.inputs.size(); ++i)
        if (const auto constant = constants_.find(ran.inputs[i]); constant != constants_.end()) {
            Prepared* place = i < ran.prepared.size() ? ran.prepared[i].get() : nullptr;
            constant->second.replaced &= place && place->take_replaced();
        }
    for (const int slot : graph.released[node]) {
        const auto found = constants_.find(slot);
        if (found == constants_.end() || found->second.gone)
            continue;
        Value& value = graph_.constants[found->second.index].second;
        if (value.on_host())
            free_on_host_ += static_cast<std::size_t>(value.numel()) * size_of(storage_type(value.type()));
        found->second.gone = found->second.replaced;
        // What was read on the host alone need not come to the device in order to go.
        const bool never_read = found->second.gone && !value.on_device();
        const Tensor tensor = never_read ? queue.context().empty(value.shape(), storage_type(value.type()), queue)
                                         : value.device(queue);
        value = Value(found->second.gone ? detail::hollow(tensor) : tensor, value.type());
    }
    if (free_on_host_ >= trimmed_by) {
        detail::trim_heap();
        free_on_host_ = 0;
    }
}

void Surplus::upload_rest(Queue& queue)
{
    for (const auto& [slot, constant] : constants_)
        if (Value& value = graph_.constants[constant.index].second; value.on_host())
            value = Value(value.device(queue), value.type());
}

void Surplus::restore(const Graph& whole)
{
    require(whole.constants.size() == graph_.constants.size(), "the model came out otherwise when it was read again");
    for (auto& [slot, constant] : constants_) {
        if (!constant.gone)
            continue;
        Value& value = graph_.constants[constant.index].second;
        const auto& [other_slot, other] = whole.constants[constant.index];
        require(other_slot == slot && other.is_tensor() && other.type() == value.type() &&
                    other.shape() == value.shape(),
                "the model came out otherwise when it was read again");
        value = other;
        constant.gone = false;
    }
}

}  // namespace clprim::onnx
