// Products of integers that become real at once: MatMulInteger, the Cast of its sums, their scale and a constant bias,
// as quantisation tools write layers whose activations are quantised as they come.
#include <algorithm>

#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

bool is(const Node& node, std::string_view op_type, std::size_t inputs)
{
    return node.domain.empty() && !node.body && node.op_type == op_type && node.inputs.size() >= inputs &&
           std::all_of(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs),
                       [](int slot) { return slot != absent; }) &&
           node.outputs.size() == 1 && node.outputs[0] != absent;
}

int input_of(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : absent; }

// The other operand of the only reader of `slot`, if that is of this type; its position goes to `members`.
int other_operand(Rewriter& rewriter, std::string_view op_type, int& slot, std::vector<std::size_t>& members)
{
    const Node* node = rewriter.only_reader(slot);
    if (!node || !is(*node, op_type, 2) || node->opset < 7 || node->inputs[0] == node->inputs[1])
        return absent;
    const int other = node->inputs[node->inputs[0] == slot];
    members.push_back(rewriter.position(*node));
    slot = node->outputs[0];
    return other;
}

// Where `scale`, which nothing else reads, is a constant for columns times a factor, such as the scale of quantised
// activations: the factor, `scale` becoming the constant and the multiplication the first of `members`.
int take_factor(Rewriter& rewriter, int& scale, std::int64_t columns, std::vector<std::size_t>& members)
{
    if (!rewriter.only_reader(scale))
        return absent;
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        const Node& node = rewriter.node(i);
        if (rewriter.dead(i) || !is(node, "Mul", 2) || node.opset < 7 || node.outputs[0] != scale)
            continue;
        const Value* second = rewriter.constant(node.inputs[1]);
        const Value* line = second ? second : rewriter.constant(node.inputs[0]);
        if (!line || !line->is_tensor() || line->dim() > 1 || (line->numel() != 1 && line->numel() != columns))
            return absent;
        members.insert(members.begin(), i);
        scale = node.inputs[second ? 1 : 0];
        return node.inputs[second ? 0 : 1];
    }
    return absent;
}

void fuse(Rewriter& rewriter, std::size_t at)
{
    const Node product = rewriter.node(at);
    const Value* weights = rewriter.constant(product.inputs[1]);
    if (!weights || !weights->is_tensor() || weights->dim() != 2)
        return;
    const int zero = input_of(product, 3);
    if (zero != absent && !rewriter.constant(zero))
        return;
    const Node* cast = rewriter.only_reader(product.outputs[0]);
    if (!cast || !is(*cast, "Cast", 1) ||
        attribute_of(*cast, "to", std::int64_t{0}) != static_cast<std::int64_t>(ElementType::float32))
        return;
    std::vector<std::size_t> members{at, rewriter.position(*cast)};
    int result = cast->outputs[0];
    int scale = other_operand(rewriter, "Mul", result, members);
    if (scale == absent)
        return;
    const int factor = take_factor(rewriter, scale, weights->shape()[1], members);
    Node fused = own_node("MatMulIntegerToFloat", product.name,
                          {product.inputs[0], product.inputs[1], input_of(product, 2), zero, scale});
    const std::size_t without = members.size();
    int biased = result;
    const int bias = other_operand(rewriter, "Add", biased, members);
    const Value* line = bias == absent ? nullptr : rewriter.constant(bias);
    if (line && line->is_tensor() && line->type() == ElementType::float32 && line->dim() == 1 &&
        line->numel() == weights->shape()[1]) {
        fused.inputs.push_back(bias);
        result = biased;
    } else {
        members.resize(without);
    }
    if (factor != absent) {
        fused.inputs.resize(6, absent);
        fused.inputs.push_back(factor);
    }
    fused.outputs = {result};
    fused.attributes["operators"] = rewriter.body_of(members, fused.inputs);
    rewriter.replace(members, std::move(fused));
}

}  // namespace

void fuse_integer_products(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i)
        if (!rewriter.dead(i) && is(rewriter.node(i), "MatMulInteger", 2))
            fuse(rewriter, i);
    rewriter.finish();
}

}  // namespace clprim::onnx
