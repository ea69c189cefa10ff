// Softmax and gradients of sums of sparse tensors of coordinates.
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <ops/sparse.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// Entries that differ along one sparse dimension alone are a line.
class SparseLines {
public:
    SparseLines(const Tensor& coalesced, int64_t dim)
    {
        std::vector<int64_t> rest;
        std::vector<Tensor> indices;
        for (int64_t d = 0; d < coalesced.sparse_dim(); ++d) {
            if (d == dim)
                continue;
            rest.push_back(coalesced.size(d));
            indices.push_back(coalesced._indices().select(0, d));
        }
        const Tensor keys = indices.empty() ? at::zeros({coalesced._nnz()}, coalesced._indices().options())
                                            : flat_positions(at::stack(indices), rest);
        const auto [sorted, order] = keys.sort(true, 0, false);
        order_ = order;
        starts_ = run_starts(sorted);
        of_ = at::searchsorted(sorted.index_select(0, starts_), keys);
    }

    // At each entry what all of its group give.
    Tensor sums(const Tensor& values) const { return sum_runs(values, order_, starts_).index_select(0, of_); }
    Tensor maxima(const Tensor& values) const
    {
        std::vector<int64_t> sizes = values.sizes().vec();
        sizes[0] = starts_.size(0);
        Tensor of = of_;
        for (int64_t d = 1; d < values.dim(); ++d)
            of = of.unsqueeze(-1);
        return at::full(sizes, -std::numeric_limits<double>::infinity(), values.options())
            .scatter_reduce(0, of.expand_as(values), values, "amax").index_select(0, of_);
    }

private:
    Tensor order_, starts_, of_;
};

void check_softmax(const char* name, const Tensor& self, bool half_to_float)
{
    TORCH_CHECK(self.is_sparse(), name, ": expected a sparse tensor, got ", self.layout());
    TORCH_CHECK(!half_to_float, name, ": with half to float conversion is not supported on sparse tensors");
    TORCH_CHECK(at::isFloatingType(self.scalar_type()), name, ": expected a tensor of a floating-point type, got ",
                self.scalar_type());
}

Tensor softmax_of(const char* name, const Tensor& self, int64_t dim, bool half_to_float, bool logarithm)
{
    check_softmax(name, self, half_to_float);
    dim = at::maybe_wrap_dim(dim, self.dim());
    const Tensor input = self.coalesce();
    Tensor values = input._values();
    if (values.numel() == 0) {
        values = values.clone();
    }
    else if (dim >= input.sparse_dim()) {
        const int64_t axis = dim - input.sparse_dim() + 1;
        values = logarithm ? at::_log_softmax(values, axis, false) : at::_softmax(values, axis, false);
    }
    else {
        const SparseLines groups(input, dim);
        const Tensor shifted = values - groups.maxima(values), exponents = shifted.exp();
        values = logarithm ? shifted - groups.sums(exponents).log() : exponents / groups.sums(exponents);
    }
    return make_coo(input._indices().clone(), values, self.sizes(), true);
}

Tensor softmax_gradient(const char* name, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& self,
                        bool logarithm)
{
    check_softmax(name, output, false);
    TORCH_CHECK(grad.is_sparse() && grad.sizes() == output.sizes(), name, ": expected a sparse gradient of size ",
                output.sizes(), ", got ", grad.sizes());
    dim = at::maybe_wrap_dim(dim, self.dim());
    const Tensor out = output.coalesce();
    const Tensor gradient = grad.sparse_mask(out)._values(), values = out._values();
    Tensor result;
    if (values.numel() == 0) {
        result = values.clone();
    }
    else if (dim >= out.sparse_dim()) {
        const int64_t axis = dim - out.sparse_dim() + 1;
        result = logarithm ? at::_log_softmax_backward_data(gradient, values, axis, self.scalar_type())
                           : at::_softmax_backward_data(gradient, values, axis, self.scalar_type());
    }
    else {
        const SparseLines groups(out, dim);
        result = logarithm ? gradient - values.exp() * groups.sums(gradient)
                           : values * (gradient - groups.sums(values * gradient));
    }
    return make_coo(out._indices().clone(), result, self.sizes(), true);
}

Tensor softmax(const Tensor& self, int64_t dim, bool half_to_float)
{
    return softmax_of("softmax", self, dim, half_to_float, false);
}
Tensor log_softmax(const Tensor& self, int64_t dim, bool half_to_float)
{
    return softmax_of("log_softmax", self, dim, half_to_float, true);
}
Tensor softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& self)
{
    return softmax_gradient("softmax_backward", grad, output, dim, self, false);
}
Tensor log_softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& self)
{
    return softmax_gradient("log_softmax_backward", grad, output, dim, self, true);
}

// Each entry of `self` gets the gradient of the sum that it went into.
Tensor sum_backward(const Tensor& grad, const Tensor& self, at::IntArrayRef dims)
{
    TORCH_CHECK(self.is_sparse() && !dims.empty(), "_sparse_sum_backward: expected a sparse 'self' and dimensions");
    const auto summed = at::dim_list_to_bitset(dims, self.dim());
    const int64_t sparse_dim = self.sparse_dim();
    const Tensor input = self.coalesce(), indices = input._indices();
    std::vector<int64_t> kept, kept_sizes;
    for (int64_t d = 0; d < sparse_dim; ++d) {
        if (!summed[d]) {
            kept.push_back(d);
            kept_sizes.push_back(self.size(d));
        }
    }
    Tensor values;
    if (kept.empty()) {
        TORCH_CHECK(!grad.is_sparse(),
                    "_sparse_sum_backward: expected a dense gradient, since all sparse dimensions were "
                    "summed");
        values = grad.unsqueeze(0);
    }
    else {
        TORCH_CHECK(grad.is_sparse(), "_sparse_sum_backward: expected a sparse gradient, got ", grad.layout());
        const Tensor from = grad.coalesce();
        std::vector<Tensor> keys;
        for (const int64_t d : kept)
            keys.push_back(indices.select(0, d));
        const Found found = find_sorted(flat_positions(from._indices(), grad.sizes()),
                                        flat_positions(at::stack(keys), kept_sizes));
        if (from._nnz() == 0)
            return make_coo(indices.clone(), at::zeros_like(input._values()), self.sizes(), true);
        Tensor absent = found.present.logical_not();
        values = from._values().index_select(0, found.position);
        for (int64_t d = 1; d < values.dim(); ++d)
            absent = absent.unsqueeze(-1);
        values = values.masked_fill(absent, 0);
    }
    for (int64_t d = sparse_dim; d < self.dim(); ++d)
        if (summed[d])
            values = values.unsqueeze(d - sparse_dim + 1);
    return make_coo(indices.clone(), values.expand_as(input._values()).clone(), self.sizes(), true);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m)
{
    m.impl("_sparse_softmax", softmax);
    m.impl("_sparse_log_softmax", log_softmax);
    m.impl("_sparse_softmax_backward_data", softmax_backward);
    m.impl("_sparse_log_softmax_backward_data", log_softmax_backward);
    m.impl("_sparse_sum_backward", sum_backward);
}

}  // namespace
}  // namespace torch_ocl
