// Embeddings: the look-up itself is index_select; here are its gradient and the renormalisation of rows.
#include <ATen/TensorUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <ops/indexing.hpp>

namespace torch_ocl {

namespace {

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t, bool, bool)
{
    TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
    const at::TensorArg indices_arg{indices, "indices", 1};
    at::checkScalarTypes("embedding", indices_arg, {at::kLong, at::kInt});
    TORCH_CHECK(weight.device() == indices.device(), "Expected all tensors to be on the same device, but found at "
                "least two devices, ", weight.device(), " and ", indices.device(), "!");
    auto sizes = indices.sizes().vec();
    sizes.push_back(weight.size(1));
    return select_rows("embedding", weight, indices.reshape(-1)).view(sizes);
}

at::Tensor embedding_dense_backward(const at::Tensor& gradient, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq)
{
    const at::TensorArg indices_arg{indices, "indices", 2};
    at::checkScalarTypes("embedding_backward", indices_arg, {at::kLong, at::kInt});
    const int64_t width = gradient.size(-1);
    // float16 and bfloat16 add up in float32; on CPUs a result much larger than what comes to it is not written twice.
    clprim::Queue& queue = current_queue(gradient);
    const bool few = queue.device().kind == clprim::DeviceKind::cpu && !scale_grad_by_freq &&
                     8 * num_weights * width > gradient.numel();
    const at::ScalarType sum_type = c10::isReducedFloatingType(gradient.scalar_type()) && !few
                                        ? at::kFloat
                                        : gradient.scalar_type();
    at::Tensor rows = gradient.reshape({-1, width}).to(sum_type);
    const at::Tensor index = indices.reshape(-1);
    const at::Tensor result = at::zeros({num_weights, width}, gradient.options().dtype(sum_type));
    if (index.numel() == 0)
        return result.to(gradient.scalar_type());
    if (scale_grad_by_freq) {
        const at::Tensor counts = at::zeros({num_weights}, rows.options());
        counts.index_add_(0, index, at::ones({index.numel()}, rows.options()));
        rows = rows.div(select_rows("embedding_dense_backward", counts, index).unsqueeze(1));
    }
    // Keys are offsets of rows of the result; a negative one, of padding, is skipped.
    at::Tensor keys = at::empty({index.numel()}, index.options().dtype(at::kLong));
    clprim::add_keys(queue, view(keys),
                     {"embedding_dense_backward", view(index), num_weights, width, clprim::NegativeIndex::refused},
                     true);
    if (padding_idx >= 0)
        keys.masked_fill_(index.eq(padding_idx), -1);
    const at::Tensor lines = rows.t();   // [width, entries]
    clprim::Tensor target = view(result);
    target.shape = {width, index.numel()};
    target.strides = {1, 0};
    clprim::reduce_through(queue, target,
                           {"embedding_dense_backward", view(keys.expand_as(lines)), clprim::index_is_key},
                           view(lines), clprim::IndexReduce::sum);
    return result.to(gradient.scalar_type());
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type)
{
    const at::TensorArg self_arg{self, "self", 1}, indices_arg{indices, "indices", 2};
    at::checkDim("embedding_renorm_", self_arg, 2);
    at::checkScalarTypes("embedding_renorm_", indices_arg, {at::kLong, at::kInt});
    const at::Tensor index = indices.reshape(-1);
    if (index.numel() == 0)
        return self;
    const at::Tensor rows = select_rows("embedding_renorm_", self, index);
    const at::Tensor norms = rows.norm(norm_type, {1}, true);
    const at::Tensor scale = at::where(norms.gt(max_norm), norms.add(1e-7).reciprocal().mul(max_norm), 1.0);
    const at::Tensor scaled = rows.mul(scale).to(self.scalar_type());
    clprim::index_copy(current_queue(self), view(self), along(0, "embedding_renorm_"), view(index),
                       view(scaled));   // equal indices write equal rows
    return self;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("embedding", embedding);
    m.impl("embedding_dense_backward", embedding_dense_backward);
    m.impl("embedding_renorm_", embedding_renorm_);
}

}  // namespace torch_ocl
