// Strided nested tensors: what PyTorch computes in kernels of its own devices, by operators on the one buffer in which
// their parts lie one behind the other. Its compositions are named in shared_layouts.cpp.
#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sum.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <ops/attention_varlen.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// A nested tensor whose parts lie one behind the other, without gaps.
struct Parts {
    Tensor buffer, sizes;   // sizes [parts, dimensions of a part], of the CPU
    std::int64_t count, dims;

    std::int64_t size(std::int64_t part, std::int64_t dim) const
    {
        return sizes.const_data_ptr<std::int64_t>()[part * dims + dim];
    }
    // Of all parts along a dimension; nothing where they differ.
    std::optional<std::int64_t> common(std::int64_t dim) const
    {
        for (std::int64_t part = 1; part < count; ++part)
            if (size(part, dim) != size(0, dim))
                return std::nullopt;
        return count > 0 ? std::optional(size(0, dim)) : std::nullopt;
    }
};

Parts parts_of(const char* name, const Tensor& nested)
{
    TORCH_CHECK(nested.is_nested(), name, ": expected a nested tensor");
    const Tensor whole = nested.contiguous();
    const auto* impl = at::native::get_nested_tensor_impl(whole);
    const Tensor sizes = impl->get_nested_sizes().contiguous();
    return {impl->get_buffer().narrow(0, 0, whole.numel()), sizes, impl->size(0), sizes.dim() == 2 ? sizes.size(1) : 0};
}

Tensor nest(const Tensor& rows, const Tensor& sizes)
{
    return at::native::wrap_buffer(rows.contiguous().view(-1), sizes);
}

// ---- layer norm ----

// The buffer as rows of the normalised shape.
Tensor normalized_rows(const char* name, const Parts& x, at::IntArrayRef shape)
{
    const auto given = static_cast<std::int64_t>(shape.size());
    TORCH_CHECK(given > 0 && given < x.dims + (x.count == 0), name, ": expected normalized_shape of 1 to ",
                x.dims - 1, " dimensions, got ", shape);
    for (std::int64_t i = 0; i < given && x.count > 0; ++i)
        TORCH_CHECK(x.common(x.dims - given + i) == shape[i], name, ": normalized_shape is ", shape,
                    ", but the parts' last dimensions are not of these sizes");
    std::vector<std::int64_t> sizes{-1};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    if (x.buffer.numel() == 0)
        sizes[0] = 0;
    return x.buffer.view(sizes);
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input, at::IntArrayRef shape,
                                                     const OptionalTensor& weight, const OptionalTensor& bias,
                                                     double eps)
{
    const Parts x = parts_of("layer_norm", input);
    const auto [y, mean, rstd] =
        at::native_layer_norm(normalized_rows("layer_norm", x, shape), shape, weight, bias, eps);
    return {nest(y, x.sizes), mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(const Tensor& grad, const Tensor& input,
                                                              at::IntArrayRef shape, const Tensor& mean,
                                                              const Tensor& rstd, const OptionalTensor& weight,
                                                              const OptionalTensor& bias, std::array<bool, 3> wanted)
{
    constexpr const char* name = "native_layer_norm_backward";
    const Parts x = parts_of(name, input), dy = parts_of(name, grad);
    auto [dx, dw, db] =
        at::native_layer_norm_backward(normalized_rows(name, dy, shape), normalized_rows(name, x, shape), shape, mean,
                                       rstd, weight, bias, wanted);
    return {dx.defined() ? nest(dx, x.sizes) : dx, dw, db};
}

// ---- sums of the last dimension ----

void check_sum(const char* name, const Parts& x, at::OptionalIntArrayRef dims, bool keepdim)
{
    TORCH_CHECK(dims && dims->size() == 1, name, ": of nested tensors, only sums of one dimension are defined");
    TORCH_CHECK(x.dims > 0 && c10::maybe_wrap_dim((*dims)[0], x.dims + 1) == x.dims, name,
                ": of nested tensors, only sums of the last dimension are defined, got dim ", (*dims)[0]);
    TORCH_CHECK(keepdim, name, ": of nested tensors, expected keepdim=True");
}

// How many rows of the last dimension a part has.
std::int64_t rows_of(const Parts& x, std::int64_t part)
{
    std::int64_t result = 1;
    for (std::int64_t dim = 0; dim + 1 < x.dims; ++dim)
        result *= x.size(part, dim);
    return result;
}

Tensor sum(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype)
{
    const Parts x = parts_of("sum", self);
    check_sum("sum", x, dims, keepdim);
    Tensor sizes = x.sizes.clone();
    if (x.count > 0)
        sizes.select(1, x.dims - 1).fill_(1);
    if (const auto size = x.common(x.dims - 1); size && *size > 0)
        return nest(at::sum(x.buffer.view({-1, *size}), 1, false, dtype), sizes);
    std::vector<Tensor> sums{at::empty({0}, x.buffer.options())};   // rows of different lengths
    for (std::int64_t part = 0, begin = 0; part < x.count; ++part) {
        const std::int64_t rows = rows_of(x, part), size = x.size(part, x.dims - 1);
        sums.push_back(at::sum(x.buffer.narrow(0, begin, rows * size).view({rows, size}), 1, false, dtype));
        begin += rows * size;
    }
    sums[0] = sums[0].to(sums.back().scalar_type());
    return nest(at::cat(sums), sizes);
}

Tensor sum_backward(const Tensor& grad, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim)
{
    const Parts dy = parts_of("sum", grad), x = parts_of("sum", self);
    check_sum("sum", x, dims, keepdim);
    if (const auto size = x.common(x.dims - 1))
        return nest(dy.buffer.unsqueeze(1).expand({dy.buffer.size(0), *size}), x.sizes);
    std::vector<Tensor> rows;
    for (std::int64_t part = 0, begin = 0; part < x.count; ++part) {
        const std::int64_t count = rows_of(x, part), size = x.size(part, x.dims - 1);
        rows.push_back(dy.buffer.narrow(0, begin, count).unsqueeze(1).expand({count, size}).reshape(-1));
        begin += count;
    }
    return rows.empty() ? nest(dy.buffer, x.sizes) : nest(at::cat(rows), x.sizes);
}

// ---- softmax of padded scores, whose columns beyond a part's length are hidden ----

Tensor softmax_with_shape(const Tensor& scores, const Tensor& query)
{
    const Parts x = parts_of("_nested_tensor_softmax_with_shape", query);
    TORCH_CHECK(scores.dim() == 4 && scores.size(0) == x.count,
                "_nested_tensor_softmax_with_shape: expected scores [", x.count, ", heads, rows, columns], got ",
                scores.sizes());
    const Tensor lengths = x.sizes.select(1, 0).contiguous().to(scores.device());
    const Tensor hidden = at::arange(scores.size(3), lengths.options()).ge(lengths.view({-1, 1, 1, 1}));
    return at::_softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 3, false);
}

// ---- the layers of nn.TransformerEncoder for inference ----

struct Rows {
    Tensor rows, sizes;   // [all rows, size]
    std::vector<std::int64_t> begins;
};

Rows rows_of(const char* name, const Tensor& nested, std::int64_t size)
{
    const Parts x = parts_of(name, nested);
    TORCH_CHECK(x.count == 0 || (x.dims == 2 && x.common(1) == size), name, ": expected parts [rows, ", size, "]");
    Rows result{x.buffer.view({-1, size}), x.sizes, {0}};
    for (std::int64_t part = 0; part < x.count; ++part)
        result.begins.push_back(result.begins.back() + x.size(part, 0));
    return result;
}

std::tuple<Tensor, Tensor> native_multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       std::int64_t embed_dim, std::int64_t heads,
                                                       const Tensor& qkv_weight, const Tensor& qkv_bias,
                                                       const Tensor& proj_weight, const Tensor& proj_bias,
                                                       const OptionalTensor& mask, bool need_weights, bool,
                                                       std::optional<std::int64_t>)
{
    constexpr const char* name = "_native_multi_head_attention";
    TORCH_CHECK_NOT_IMPLEMENTED(!need_weights && !(mask && mask->defined()), name,
                                ": of nested tensors, neither a mask nor need_weights is supported; use padded ones");
    TORCH_CHECK(heads > 0 && embed_dim % heads == 0, name, ": embed_dim ", embed_dim,
                " must be divisible by num_heads ", heads);
    const c10::OptionalDeviceGuard guard(qkv_weight.device());
    const Rows q = rows_of(name, query, embed_dim), k = rows_of(name, key, embed_dim),
               v = rows_of(name, value, embed_dim);
    TORCH_CHECK(q.begins.size() == k.begins.size() && k.begins == v.begins, name,
                ": expected as many parts of key and value as of query, keys and values of the same lengths");
    const auto projected = [&](const Rows& x, std::int64_t i) {
        const Tensor y = at::linear(x.rows, qkv_weight.narrow(0, i * embed_dim, embed_dim),
                                    qkv_bias.narrow(0, i * embed_dim, embed_dim));
        return y.view({-1, heads, embed_dim / heads});
    };
    VarlenProblem p;
    p.query = projected(q, 0);
    p.key = projected(k, 1);
    p.value = projected(v, 2);
    p.query_begins = q.begins;
    p.key_begins = k.begins;
    p.scale = 1 / std::sqrt(static_cast<double>(embed_dim / heads));
    const Tensor y = varlen_attention(p, false).y.view({-1, embed_dim});
    return {nest(at::linear(y, proj_weight, proj_bias), q.sizes), Tensor()};
}

// Queries, keys and values [batch, heads, the longest part's length, size], as if parts had zeros behind
// their rows.
std::tuple<Tensor, Tensor, Tensor> transform_bias_rescale_qkv(const Tensor& qkv, const Tensor& bias, std::int64_t heads)
{
    constexpr const char* name = "_transform_bias_rescale_qkv";
    TORCH_CHECK(bias.dim() == 1, name, ": expected a bias of one dimension, got ", bias.sizes());
    TORCH_CHECK(heads > 0 && bias.size(0) % (3 * heads) == 0, name, ": a bias of ", bias.size(0),
                " elements does not make ", heads, " heads");
    const Rows x = rows_of(name, qkv, bias.size(0));
    const c10::OptionalDeviceGuard guard(bias.device());
    Tensor y = nest(x.rows, x.sizes).to_padded_tensor(0) + bias;
    y = y.view({y.size(0), y.size(1), 3, heads, -1}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(y.size(4)));
    return {(y.select(0, 0) * scale).contiguous(), y.select(0, 1).contiguous(), y.select(0, 2).contiguous()};
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m)
{
    m.impl("_transform_bias_rescale_qkv", transform_bias_rescale_qkv);
    m.impl("native_layer_norm", native_layer_norm);
    m.impl("native_layer_norm_backward", native_layer_norm_backward);
    m.impl("sum.dim_IntList", sum);
    m.impl("_nested_sum_backward", sum_backward);
    m.impl("_nested_tensor_softmax_with_shape", softmax_with_shape);
    m.impl("_native_multi_head_attention", native_multi_head_attention);
}

}  // namespace
}  // namespace torch_ocl
