// Batch norms that no convolution before them took in: within the constant matrix of the product before them, also
// through a Reshape to its rows (LeViT); else a factor and a shift for each channel, which chains of elementwise
// operators go on with.
#include <algorithm>
#include <cmath>
#include <optional>

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

struct ChannelAffine {
    Value factors, shifts;               // float32 [channels]
};
std::optional<ChannelAffine> affine_of(Rewriter& rewriter, const Node& node)
{
    if (!is_inference(node))
        return std::nullopt;
    const Value* first = rewriter.constant(node.inputs[1]);
    const std::int64_t count = first && first->is_tensor() && first->dim() == 1 ? first->shape()[0] : 0;
    const float* statistics[4];                           // scale, shift, mean, variance
    for (std::size_t k = 0; k < 4; ++k)
        statistics[k] = vector_of(rewriter.constant(node.inputs[1 + k]), count);
    if (count == 0 || std::ranges::find(statistics, nullptr) != std::end(statistics))
        return std::nullopt;
    ChannelAffine result{Value::zeros(ElementType::float32, {count}), Value::zeros(ElementType::float32, {count})};
    const auto factor = result.factors.mutable_host<float>(), shift = result.shifts.mutable_host<float>();
    const double epsilon = attribute_of(node, "epsilon", 1e-5f);
    for (std::size_t c = 0; c < factor.size(); ++c) {
        const double exact = statistics[0][c] / std::sqrt(statistics[3][c] + epsilon);
        factor[c] = static_cast<float>(exact);
        shift[c] = static_cast<float>(statistics[1][c] - statistics[2][c] * exact);
    }
    return result;
}

std::span<const float> floats_of(const Value& value)
{
    return {reinterpret_cast<const float*>(value.host_bytes()), static_cast<std::size_t>(value.numel())};
}

bool is_host_matrix(const Value* value)
{
    return value && value->is_tensor() && value->type() == ElementType::float32 && value->on_host() &&
           value->dim() == 2;
}

bool is_own(const Node* node, std::string_view op_type, std::size_t inputs)
{
    return node && node->domain.empty() && !node->body && node->op_type == op_type && node->inputs.size() >= inputs &&
           std::ranges::find(node->inputs, absent) == node->inputs.end();
}

// Whether a Reshape leaves rows of `columns` numbers as they are, as rows of a matrix.
bool keeps_rows(Rewriter& rewriter, const Node& reshape, std::int64_t columns)
{
    const Value* shape = rewriter.constant(reshape.inputs[1]);
    return shape && shape->is_tensor() && shape->type() == ElementType::int64 && shape->on_host() &&
           shape->numel() == 2 && reinterpret_cast<const std::int64_t*>(shape->host_bytes())[1] == columns;
}

// The matrix with its columns (its rows, where it is turned) times the factors.
Value scaled_matrix(const Value& matrix, const Value& factors, bool turned)
{
    Value result = Value::zeros(ElementType::float32, matrix.shape());
    const auto to = result.mutable_host<float>();
    const auto from = floats_of(matrix), by = floats_of(factors);
    const auto columns = static_cast<std::size_t>(matrix.shape()[1]);
    for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = from[i] * by[turned ? i / columns : i % columns];
    return result;
}

// A product of an unknown number of axes: only a Reshape says that its columns are the channels.
bool into_matmul(Rewriter& rewriter, std::size_t at)
{
    const Node norm = rewriter.node(at);
    const Node* reshape = rewriter.writer(norm.inputs[0]);
    if (!is_own(reshape, "Reshape", 2) || !rewriter.only_reader(norm.inputs[0]))
        return false;
    const Node* product = rewriter.writer(reshape->inputs[0]);
    if (!is_own(product, "MatMul", 2) || rewriter.only_reader(reshape->inputs[0]) != reshape)
        return false;
    const Value* weight = rewriter.constant(product->inputs[1]);
    const auto affine = affine_of(rewriter, norm);
    if (!is_host_matrix(weight) || !affine || weight->shape()[1] != affine->factors.numel() ||
        !keeps_rows(rewriter, *reshape, weight->shape()[1]))
        return false;
    const std::size_t product_at = rewriter.position(*product), reshape_at = rewriter.position(*reshape);
    Node reshaped = *reshape;
    Node linear = own_node("Linear", product->name + ".." + norm.name, {product->inputs[0]}, product->outputs);
    const Value scaled = scaled_matrix(*weight, affine->factors, false);
    linear.inputs.push_back(rewriter.add_constant(scaled));
    linear.inputs.push_back(rewriter.add_constant(affine->shifts));
    reshaped.outputs = {norm.outputs[0]};
    rewriter.replace({product_at}, std::move(linear));
    rewriter.replace({reshape_at, at}, std::move(reshaped));
    return true;
}

bool into_gemm(Rewriter& rewriter, std::size_t at)
{
    const Node& norm = rewriter.node(at);
    const Node* product = rewriter.writer(norm.inputs[0]);
    if (!is_own(product, "Gemm", 2) || product->opset < 7 || !rewriter.only_reader(norm.inputs[0]))
        return false;
    const bool turned = attribute_of<std::int64_t>(*product, "transB", 0) != 0;
    const Value* weight = rewriter.constant(product->inputs[1]);
    const auto affine = affine_of(rewriter, norm);
    if (!is_host_matrix(weight) || !affine || weight->shape()[turned ? 0 : 1] != affine->factors.numel())
        return false;
    const float beta = attribute_of(*product, "beta", 1.0f);
    Value shifts = Value::zeros(ElementType::float32, affine->shifts.shape());
    const auto shift = shifts.mutable_host<float>();
    std::ranges::copy(floats_of(affine->shifts), shift.begin());
    if (product->inputs.size() > 2 && beta != 0) {
        const float* bias = vector_of(rewriter.constant(product->inputs[2]), affine->shifts.numel());
        if (!bias)
            return false;
        for (std::size_t c = 0; c < shift.size(); ++c)
            shift[c] += floats_of(affine->factors)[c] * beta * bias[c];
    }
    Node fused = *product;
    const std::size_t product_at = rewriter.position(*product);
    fused.name += ".." + norm.name;
    fused.outputs = {norm.outputs[0]};
    fused.attributes["beta"] = 1.0f;
    const Value scaled = scaled_matrix(*weight, affine->factors, turned);
    fused.inputs.resize(1);
    fused.inputs.push_back(rewriter.add_constant(scaled));
    fused.inputs.push_back(rewriter.add_constant(shifts));
    rewriter.replace({product_at, at}, std::move(fused));
    return true;
}

}  // namespace

void fuse_batch_norms(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i) {
        if (rewriter.dead(i) || !is_inference(rewriter.node(i)) || into_gemm(rewriter, i) || into_matmul(rewriter, i))
            continue;
        const auto affine = affine_of(rewriter, rewriter.node(i));
        if (!affine)
            continue;
        const Node& node = rewriter.node(i);
        std::vector<int> inputs{node.inputs[0], rewriter.add_constant(affine->factors),
                                rewriter.add_constant(affine->shifts)};
        rewriter.replace({i}, own_node("ChannelAffine", node.name, std::move(inputs), {node.outputs[0]}));
    }
    rewriter.finish();
}

}  // namespace clprim::onnx
