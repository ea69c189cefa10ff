// Batch norms that no convolution before them took in: a factor and a shift for each channel, which chains of
// elementwise operators go on with.
#include <algorithm>
#include <cmath>

#include <clprim/error.hpp>

#include "onnx/call.hpp"
#include "onnx/rewriter.hpp"

namespace clprim::onnx {

namespace {

bool is_inference(const Node& node)
{
    if (!node.domain.empty() || node.body || node.op_type != "BatchNormalization" || node.opset < 7 ||
        node.inputs.size() != 5 || std::ranges::find(node.inputs, absent) != node.inputs.end())
        return false;
    return std::ranges::count(node.outputs, absent) == static_cast<std::ptrdiff_t>(node.outputs.size()) - 1 &&
           node.outputs[0] != absent && attribute_of<std::int64_t>(node, "training_mode", 0) == 0 &&
           attribute_of<std::int64_t>(node, "spatial", 1) == 1;
}

const float* vector_of(const Value* value, std::int64_t count)
{
    if (!value || !value->is_tensor() || value->type() != ElementType::float32 || !value->on_host() ||
        value->shape() != Dims{count})
        return nullptr;
    return reinterpret_cast<const float*>(value->host_bytes());
}

}  // namespace

void fuse_batch_norms(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        const Node& node = rewriter.node(i);
        if (rewriter.dead(i) || !is_inference(node))
            continue;
        const Value* first = rewriter.constant(node.inputs[1]);
        const std::int64_t count = first && first->is_tensor() && first->dim() == 1 ? first->shape()[0] : 0;
        const float* statistics[4];                       // scale, shift, mean, variance
        for (std::size_t k = 0; k < 4; ++k)
            statistics[k] = vector_of(rewriter.constant(node.inputs[1 + k]), count);
        if (count == 0 || std::ranges::find(statistics, nullptr) != std::end(statistics))
            continue;
        Value factors = Value::zeros(ElementType::float32, {count});
        Value shifts = Value::zeros(ElementType::float32, {count});
        const auto factor = factors.mutable_host<float>(), shift = shifts.mutable_host<float>();
        const double epsilon = attribute_of(node, "epsilon", 1e-5f);
        for (std::size_t c = 0; c < factor.size(); ++c) {
            const double exact = statistics[0][c] / std::sqrt(statistics[3][c] + epsilon);
            factor[c] = static_cast<float>(exact);
            shift[c] = static_cast<float>(statistics[1][c] - statistics[2][c] * exact);
        }
        Node fused;
        fused.name = node.name;
        fused.domain = "clprim";
        fused.op_type = "ChannelAffine";
        fused.inputs = {node.inputs[0], rewriter.add_constant(factors), rewriter.add_constant(shifts)};
        fused.outputs = {rewriter.node(i).outputs[0]};
        fused.row = find_operator(fused.domain, fused.op_type, 1);
        rewriter.replace({i}, std::move(fused));
    }
    rewriter.finish();
}

}  // namespace clprim::onnx
