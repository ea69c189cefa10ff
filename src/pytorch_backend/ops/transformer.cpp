// The layers that torch.nn.TransformerEncoder and MultiheadAttention call for inference, put together from operators of
// the device: projections, scaled dot product attention, layer norm.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// What a mask stands for.
enum MaskType : int64_t { source_mask = 0, padding_mask = 1, full_mask = 2 };

// As [batch, heads, rows, columns] or a shape that broadcasts to it: [rows, columns] of a source mask, [batch, columns]
// of a padding mask. A mask of the scores' shape is itself, whatever it is said to stand for.
Tensor broadcast_mask(const Tensor& mask, at::IntArrayRef scores, std::optional<int64_t> type)
{
    if (mask.sizes() != scores && (type == source_mask || type == padding_mask)) {
        TORCH_CHECK(scores.size() == 4, "mask_type ", *type, " expects scores of 4 dimensions, got ", scores);
        const int64_t columns = scores[3], rows = type == source_mask ? scores[2] : scores[0];
        TORCH_CHECK(mask.dim() == 2 && mask.size(0) == rows && mask.size(1) == columns, "mask has shape ", mask.sizes(),
                    ", expected [", rows, ", ", columns, "]");
        return type == source_mask ? mask : mask.view({rows, 1, 1, columns});
    }
    TORCH_CHECK(mask.sizes() == scores, "mask has shape ", mask.sizes(), ", expected that of the input, ", scores);
    return mask;
}

int64_t softmax_dim(const Tensor& self, std::optional<int64_t> dim)
{
    return dim ? c10::maybe_wrap_dim(*dim, self.dim()) : self.dim() - 1;
}

Tensor masked_softmax(const Tensor& self, const Tensor& mask, std::optional<int64_t> dim, std::optional<int64_t> type)
{
    TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
    TORCH_CHECK(mask.sizes() == self.sizes() || (type && *type >= 0 && *type <= 2),
                "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
    const Tensor hidden = broadcast_mask(mask, self.sizes(), type);
    return at::_softmax(self.masked_fill(hidden, -std::numeric_limits<double>::infinity()), softmax_dim(self, dim),
                        false);
}

Tensor masked_softmax_backward(const Tensor& grad, const Tensor& output, const Tensor& mask, std::optional<int64_t> dim)
{
    TORCH_CHECK(mask.sizes() == grad.sizes(), "Mask shape should match grad shape");
    TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
    return at::_softmax_backward_data(grad, output.masked_fill(mask, 0), softmax_dim(grad, dim), grad.scalar_type());
}

// [batch, length, heads * size] as [batch, heads, length, size]
Tensor split_heads(const Tensor& x, int64_t heads)
{
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Three transform_bias_rescale_qkv(const Tensor& qkv, const Tensor& bias, int64_t heads)
{
    TORCH_CHECK(qkv.dim() == 3 && bias.dim() == 1 && qkv.size(2) == bias.size(0),
                "expected qkv [batch, length, 3 * size] and "
                "a bias of as many elements, got ",
                qkv.sizes(), " and ", bias.sizes());
    TORCH_CHECK(heads > 0 && qkv.size(2) % (3 * heads) == 0, "qkv of ", qkv.size(2), " columns does not make ", heads,
                " heads");
    const c10::OptionalDeviceGuard guard(qkv.device());
    const std::vector<Tensor> parts = (qkv + bias).chunk(3, 2);
    const double scale = 1 / std::sqrt(static_cast<double>(parts[0].size(2) / heads));
    return {(split_heads(parts[0], heads) * scale).contiguous(), split_heads(parts[1], heads).contiguous(),
            split_heads(parts[2], heads).contiguous()};
}

struct Attention {
    int64_t embed_dim, heads;
    const Tensor &qkv_weight, &qkv_bias, &out_weight, &out_bias;
};

// Queries, keys and values [batch, heads, length, size]; one product where they come from one tensor.
Three projections(const Attention& layer, const Tensor& query, const Tensor& key, const Tensor& value)
{
    std::vector<Tensor> parts;
    if (query.is_same(key) && key.is_same(value)) {
        parts = at::linear(query, layer.qkv_weight, layer.qkv_bias).chunk(3, 2);
    } else {
        const std::vector<Tensor> weights = layer.qkv_weight.chunk(3), biases = layer.qkv_bias.chunk(3);
        const Tensor* inputs[] = {&query, &key, &value};
        for (int i = 0; i < 3; ++i)
            parts.push_back(at::linear(*inputs[i], weights[i], biases[i]));
    }
    return {split_heads(parts[0], layer.heads), split_heads(parts[1], layer.heads), split_heads(parts[2], layer.heads)};
}

// What is added to the scores: minus infinity where a boolean mask is set.
OptionalTensor additive_mask(const OptionalTensor& mask, std::optional<int64_t> type, const Tensor& q, const Tensor& k)
{
    if (!mask || !mask->defined())
        return std::nullopt;
    const Tensor shaped = broadcast_mask(*mask, {q.size(0), q.size(1), q.size(2), k.size(2)}, type);
    if (shaped.scalar_type() != at::kBool)
        return shaped.to(q.scalar_type());
    return at::zeros(shaped.sizes(), q.options()).masked_fill_(shaped, -std::numeric_limits<double>::infinity());
}

void check_inputs(const Attention& layer, const Tensor& query, const Tensor& key, const Tensor& value)
{
    const int64_t size = layer.embed_dim;
    TORCH_CHECK(query.dim() == 3 && query.size(2) == size, "expected query [batch, length, ", size, "], got ",
                query.sizes());
    TORCH_CHECK(key.dim() == 3 && key.sizes() == value.sizes() && key.size(0) == query.size(0) && key.size(2) == size,
                "expected key and value [", query.size(0), ", length, ", size, "], got ", key.sizes(), " and ",
                value.sizes());
    TORCH_CHECK(layer.heads > 0 && size % layer.heads == 0, "embed_dim ", size, " must be divisible by num_heads ",
                layer.heads);
    TORCH_CHECK(layer.qkv_weight.dim() == 2 && layer.qkv_weight.size(0) == 3 * size &&
                    layer.qkv_weight.size(1) == size && layer.qkv_bias.numel() == 3 * size,
                "expected qkv_weight [", 3 * size, ", ", size, "] and as many biases as rows, got ",
                layer.qkv_weight.sizes(), " and ", layer.qkv_bias.sizes());
}

std::tuple<Tensor, Tensor> native_multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       int64_t embed_dim, int64_t num_head, const Tensor& qkv_weight,
                                                       const Tensor& qkv_bias, const Tensor& proj_weight,
                                                       const Tensor& proj_bias, const OptionalTensor& mask,
                                                       bool need_weights, bool average_attn_weights,
                                                       std::optional<int64_t> mask_type)
{
    const Attention layer{embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias};
    check_inputs(layer, query, key, value);
    const c10::OptionalDeviceGuard guard(query.device());
    const auto [q, k, v] = projections(layer, query, key, value);
    const OptionalTensor added = additive_mask(mask, mask_type, q, k);
    Tensor weights, y;
    if (need_weights) {
        Tensor scores = at::matmul(q * (1 / std::sqrt(static_cast<double>(q.size(3)))), k.transpose(2, 3));
        weights = at::_softmax(added ? scores + *added : scores, 3, false);
        y = at::matmul(weights, v);
        if (average_attn_weights)
            weights = weights.mean(1);
    } else {
        y = at::scaled_dot_product_attention(q, k, v, added);
    }
    y = y.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
    return {at::linear(y, proj_weight, proj_bias), weights};
}

Tensor transformer_encoder_layer(const Tensor& src, int64_t embed_dim, int64_t num_heads, const Tensor& qkv_weight,
                                 const Tensor& qkv_bias, const Tensor& proj_weight, const Tensor& proj_bias,
                                 bool use_gelu, bool norm_first, double eps, const Tensor& norm_weight_1,
                                 const Tensor& norm_bias_1, const Tensor& norm_weight_2, const Tensor& norm_bias_2,
                                 const Tensor& ffn_weight_1, const Tensor& ffn_bias_1, const Tensor& ffn_weight_2,
                                 const Tensor& ffn_bias_2, const OptionalTensor& mask, std::optional<int64_t> mask_type)
{
    const c10::OptionalDeviceGuard guard(src.device());
    const auto norm_1 = [&](const Tensor& x) {
        return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps);
    };
    const auto norm_2 = [&](const Tensor& x) {
        return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps);
    };
    Tensor x = norm_first ? norm_1(src) : src;
    x = src + std::get<0>(at::_native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias,
                                                           proj_weight, proj_bias, mask, false, true, mask_type));
    if (!norm_first)
        x = norm_1(x);
    const Tensor hidden = at::linear(norm_first ? norm_2(x) : x, ffn_weight_1, ffn_bias_1);
    x = x + at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn_weight_2, ffn_bias_2);
    return norm_first ? x : norm_2(x);
}

// Whether nn.TransformerEncoder may turn a padded batch into a nested tensor. The device has none: the encoder keeps
// the batch padded, and masks it.
bool nested_tensor_from_mask_left_aligned(const Tensor&, const Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_nested_tensor_from_mask_left_aligned", nested_tensor_from_mask_left_aligned);
    m.impl("_masked_softmax", masked_softmax);
    m.impl("_masked_softmax_backward", masked_softmax_backward);
    m.impl("_transform_bias_rescale_qkv", transform_bias_rescale_qkv);
    m.impl("_native_multi_head_attention", native_multi_head_attention);
    m.impl("_transformer_encoder_layer_fwd", transformer_encoder_layer);
}
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m)
{
    m.impl("_transformer_encoder_layer_fwd", transformer_encoder_layer);
}

}  // namespace
}  // namespace torch_ocl
