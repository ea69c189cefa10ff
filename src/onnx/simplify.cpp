// Operators that cheaper ones compute.
#include <algorithm>
#include <optional>

#include "onnx/call.hpp"
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
