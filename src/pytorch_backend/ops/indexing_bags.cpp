// embedding_bag: rows of a table, looked up and combined bag by bag (sum, mean or max).
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <clprim/pointwise.hpp>
#include <torch/library.h>

#include <ops/indexing.hpp>

namespace torch_ocl {

namespace {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;
enum Mode { sum = 0, mean = 1, max = 2 };

void check_inputs(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                  const OptionalTensor& weights, int64_t mode)
{
    TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
                "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices.dim());
    TORCH_CHECK(
        indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
        indices.scalar_type(), " instead");
    TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
    TORCH_CHECK(weight.is_floating_point(), "Expected tensor for argument #1 'weight' to have one of the following "
                "scalar types: Half, BFloat16, Float, Double; but got ", weight.scalar_type(), " instead");
    TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
    if (weights && weights->defined()) {
        TORCH_CHECK(mode == sum,
                    "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                    "mode='sum'");
        TORCH_CHECK(weights->scalar_type() == weight.scalar_type(),
                    "expected scalar type ", weight.scalar_type(), " for per_sample_weights, as weight has, but found ",
                    weights->scalar_type());
        TORCH_CHECK(weights->sizes() == indices.sizes(),
                    "expected per_sample_weights to have the same shape as input");
    }
}

// The bag of every index: how many offsets lie at or before its place.
at::Tensor bag_of_each(const at::Tensor& offsets, int64_t count)
{
    const auto options = offsets.options().dtype(at::kLong);
    return at::searchsorted(offsets.to(at::kLong).contiguous(), at::arange(count, options), false, true).sub_(1);
}

// The first bag begins with the first index, and none behind the end of the indices; known only when the device is
// waited for.
void check_ends(const at::Tensor& offsets, int64_t count)
{
    if (offsets.numel() == 0)
        return;
    clprim::require_within(current_queue(offsets), view(offsets.narrow(0, 0, 1)), 0, 0,
                           "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                           "position 0.");
    const at::Tensor last = offsets.narrow(0, offsets.size(0) - 1, 1);
    const at::Tensor key = at::empty({1}, offsets.options().dtype(at::kLong));
    clprim::add_keys(current_queue(offsets), view(key),
                     {"embedding_bag: offsets", view(last), count + 1, 1, clprim::NegativeIndex::refused}, true);
}

// `differentiable`: the gradient wants to know the bag of each index; otherwise those numbers are left as they are.
template <bool differentiable>
Four embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool, int64_t mode,
                   bool, const OptionalTensor& per_sample_weights, bool include_last_offset, int64_t padding_idx)
{
    check_inputs(weight, indices, offsets, per_sample_weights, mode);
    const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0), n = indices.numel(), width = weight.size(1);
    TORCH_CHECK(bags >= 0, "include_last_offset: number of offset should be at least 1");
    check_ends(offsets, n);
    const auto kind = at::promote_types(indices.scalar_type(), offsets.scalar_type());
    const at::Tensor bag = differentiable ? bag_of_each(offsets.narrow(0, 0, bags), n).to(kind)
                                          : at::empty({n}, indices.options().dtype(kind));
    const at::Tensor table = weight.stride(1) == 1 ? weight : weight.contiguous();
    const at::Tensor result = at::empty({bags, width}, weight.options());
    const at::Tensor sizes = at::empty({bags}, indices.options().dtype(kind));
    const at::Tensor places =
        mode == max ? at::empty({bags, width}, sizes.options()) : at::empty({0}, sizes.options());
    const at::Tensor samples = indices.contiguous().view(-1), begins = offsets.contiguous();
    clprim::EmbeddingBags call{.index = view(samples), .offsets = view(begins), .mode = clprim::BagMode(mode),
                               .padding = padding_idx, .result = view(result), .sizes = view(sizes)};
    at::Tensor weights;
    if (per_sample_weights && per_sample_weights->defined()) {
        weights = per_sample_weights->contiguous().view(-1);
        call.weights = view(weights);
    }
    if (mode == max)
        call.places = view(places);
    clprim::embedding_bag(current_queue(weight), view(table), call);
    return {result, bag, sizes, places};
}

at::Tensor dense_backward(const at::Tensor& gradient, const at::Tensor& indices, const at::Tensor& bag,
                                  const at::Tensor& sizes, const at::Tensor& places, int64_t num_weights,
                                  bool scale_grad_by_freq, int64_t mode, const OptionalTensor& per_sample_weights,
                                  int64_t padding_idx)
{
    const int64_t width = gradient.size(1);
    if (mode == max) {
        // Row places[b][j] gets gradient[b][j]; -1 (an empty bag) has its own row, which is dropped.
        const at::Tensor row = places.to(at::kLong).masked_fill(places.lt(0), num_weights);
        return at::zeros({num_weights + 1, width}, gradient.options()).scatter_add_(0, row, gradient)
            .narrow(0, 0, num_weights).contiguous();
    }
    at::Tensor rows = mode == mean ? gradient.div(sizes.clamp_min(1).unsqueeze(1)) : gradient;
    rows = rows.index_select(0, bag);
    if (per_sample_weights && per_sample_weights->defined())
        rows = rows.mul(per_sample_weights->unsqueeze(1));
    return at::embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor embedding_bag_backward(const at::Tensor& gradient, const at::Tensor& indices, const at::Tensor& offsets,
                                  const at::Tensor& bag, const at::Tensor& sizes, const at::Tensor& places,
                                  int64_t num_weights, bool scale_grad_by_freq, int64_t mode, bool sparse,
                                  const OptionalTensor& per_sample_weights, int64_t padding_idx)
{
    if (sparse)
        return at::_embedding_bag_sparse_backward(gradient, indices, offsets, bag, sizes, num_weights,
                                                  scale_grad_by_freq, mode, per_sample_weights, padding_idx);
    return dense_backward(gradient, indices, bag, sizes, places, num_weights, scale_grad_by_freq, mode,
                          per_sample_weights, padding_idx);
}

at::Tensor per_sample_weights_backward(const at::Tensor& gradient, const at::Tensor& weight, const at::Tensor& indices,
                                       const at::Tensor&, const at::Tensor& bag, int64_t mode, int64_t padding_idx)
{
    TORCH_CHECK(mode == sum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
    const at::Tensor products = gradient.index_select(0, bag)
                                    .mul(select_rows("embedding_bag_backward", weight, indices)).sum(1);
    return padding_idx < 0 ? products : products.masked_fill(indices.eq(padding_idx), 0);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_embedding_bag", embedding_bag<true>);
    m.impl("_embedding_bag_forward_only", embedding_bag<false>);
    m.impl("_embedding_bag_backward", embedding_bag_backward);
    m.impl("_embedding_bag_dense_backward", dense_backward);
    m.impl("_embedding_bag_per_sample_weights_backward", per_sample_weights_backward);
}

}  // namespace torch_ocl
