// What a model tells before a session is made of it.
#include <algorithm>
#include <climits>

#include <clprim/onnx.hpp>

#include "onnx/call.hpp"
#include "onnx/ports.hpp"

namespace clprim {

using namespace onnx;

namespace {

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

// Why clprim leaves out what others have, by name in com.microsoft's domain.
const char* deliberate_reason(const Node& node)
{
    static const std::map<std::string_view, const char*> reasons{
        {"PagedAttention", "paged attention is not supported; export with padded sequences"}};
    const auto found = node.domain == "com.microsoft" ? reasons.find(node.op_type) : reasons.end();
    return found == reasons.end() ? nullptr : found->second;
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
        if (const char* known = deliberate_reason(node)) {
            reason = known;
            return;
        }
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

}  // namespace clprim
