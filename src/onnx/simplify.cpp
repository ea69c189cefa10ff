// Operators that cheaper ones compute.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "onnx/call.hpp"
#include "onnx/constants.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

// The exponent of a power, if it is one number that never changes.
std::optional<float> exponent_of(Rewriter& rewriter, const Node& node)
{
    if (!node.domain.empty() || node.body || node.op_type != "Pow" || node.opset < 7 || node.inputs.size() != 2 ||
        std::ranges::find(node.inputs, absent) != node.inputs.end())
        return std::nullopt;
    const Value* value = rewriter.constant(node.inputs[1]);
    if (!value || !value->is_tensor() || value->type() != ElementType::float32 || !value->on_host() ||
        value->numel() != 1 || value->dim() > 1)      // of more axes than the base it would lend it some
        return std::nullopt;
    return *reinterpret_cast<const float*>(value->host_bytes());
}

}  // namespace

void skip_copies(Graph& graph)
{
    const std::set<int> seen_by_others = shared_slots(graph);
    std::map<int, int> originals;
    std::erase_if(graph.nodes, [&](Node& node) {
        for (int& slot : node.inputs)
            if (const auto found = originals.find(slot); found != originals.end())
                slot = found->second;
        const bool copies = node.domain.empty() && !node.body && node.op_type == "Identity" &&
                            node.inputs.size() == 1 && node.outputs.size() == 1 && node.inputs[0] != absent &&
                            node.outputs[0] != absent && !seen_by_others.contains(node.outputs[0]);
        if (copies)
            originals[node.outputs[0]] = node.inputs[0];
        return copies;
    });
}

void simplify(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        Node& node = rewriter.node(i);
        if (exponent_of(rewriter, node) != 2.0f)
            continue;
        // The type of a power is its base's: the product of it with itself.
        Node product = node;
        product.op_type = "Mul";
        product.inputs = {node.inputs[0], node.inputs[0]};
        product.row = find_operator("", "Mul", product.opset);
        rewriter.replace({i}, std::move(product));
    }
    rewriter.finish();
}

}  // namespace clprim::onnx
