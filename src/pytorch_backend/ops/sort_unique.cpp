// unique and its kin: elements or slices are brought into order, and where neighbours differ a new group begins.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <ops/outputs.hpp>

namespace torch_ocl {

namespace {

struct Groups {
    at::Tensor starts;    // positions where groups begin
    at::Tensor inverse;   // group of each original position
    at::Tensor counts;
};

// Groups of n slices in order; `fresh` (boolean, [n]) says where slices differ from the one before. `order` holds where
// they stood originally (undefined: there).
Groups group(const at::Tensor& fresh, const at::Tensor& order, bool wants_inverse, bool wants_counts)
{
    Groups groups;
    const auto options = fresh.options().dtype(at::kLong);
    groups.starts = fresh.nonzero().squeeze(1);
    groups.inverse = at::empty({0}, options);
    groups.counts = at::empty({0}, options);
    if (wants_inverse) {
        const at::Tensor numbers = fresh.to(at::kLong).cumsum(0).sub_(1);
        groups.inverse = order.defined() ? at::empty_like(numbers).index_copy_(0, order, numbers) : numbers;
    }
    if (wants_counts) {
        const at::Tensor ends = at::cat({groups.starts.narrow(0, 1, groups.starts.size(0) - 1),
                                         at::full({1}, fresh.size(0), options)});
        groups.counts = ends.sub(groups.starts);
    }
    return groups;
}

// Where each of n slices (rows of a matrix, or elements of a vector) differs from the one before it.
at::Tensor differs(const at::Tensor& slices)
{
    const int64_t n = slices.size(0);
    at::Tensor fresh = slices.narrow(0, 1, n - 1).ne(slices.narrow(0, 0, n - 1));
    if (fresh.dim() == 2)
        fresh = fresh.any(1);
    return at::cat({at::ones({1}, fresh.options()), fresh});
}

Three empty_result(const at::Tensor& self)
{
    const auto options = self.options().dtype(at::kLong);
    return {at::empty({0}, self.options()), at::empty(self.sizes(), options), at::empty({0}, options)};
}

Three unique2(const at::Tensor& self, bool, bool return_inverse, bool return_counts)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique\" not implemented for '",
                                c10::toString(self.scalar_type()), "'");
    if (self.numel() == 0)
        return empty_result(self);
    const auto [sorted, order] = self.reshape(-1).sort(true, 0, false);
    const Groups groups = group(differs(sorted), order, return_inverse, return_counts);
    return {sorted.index_select(0, groups.starts), return_inverse ? groups.inverse.view(self.sizes()) : groups.inverse,
            groups.counts};
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool return_inverse)
{
    auto [values, inverse, counts] = unique2(self, sorted, return_inverse, false);
    return {values, inverse};
}

// Slices along a dimension as rows of a matrix.
at::Tensor rows_along(const at::Tensor& self, int64_t dim)
{
    return self.movedim(dim, 0).reshape({self.size(dim), -1});
}

Three gather_slices(const at::Tensor& self, int64_t dim, const Groups& groups, const at::Tensor& order)
{
    const at::Tensor chosen = order.defined() ? order.index_select(0, groups.starts) : groups.starts;
    return {self.index_select(dim, chosen), groups.inverse, groups.counts};
}

bool is_empty_along(const at::Tensor& self, int64_t dim)
{
    const int64_t zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
    if (self.size(dim) == 0) {
        TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
        return true;
    }
    TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    return false;
}

Three empty_along(const at::Tensor& self)
{
    const auto options = self.options().dtype(at::kLong);
    return {at::empty(self.sizes(), self.options()), at::empty({0}, options), at::empty({0}, options)};
}

Three unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool return_inverse, bool return_counts)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    if (is_empty_along(self, dim))
        return empty_along(self);
    const Groups groups = group(differs(rows_along(self, dim)), {}, return_inverse, return_counts);
    return gather_slices(self, dim, groups, {});
}

// Lexicographic order of the slices: stable sorts by each column, the last first. NaN comes first, as PyTorch's tests
// have it: numbers are brought into the order of their negatives, descending.
Three unique_dim(const at::Tensor& self, int64_t dim, bool, bool return_inverse, bool return_counts)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique_dim\" not implemented for '", self.scalar_type(), "'");
    dim = at::maybe_wrap_dim(dim, self.dim());
    if (is_empty_along(self, dim))
        return empty_along(self);
    const at::Tensor rows = rows_along(self, dim);
    at::Tensor order = at::arange(rows.size(0), self.options().dtype(at::kLong));
    for (int64_t c = rows.size(1); c-- > 0;) {
        const at::Tensor column = rows.select(1, c).index_select(0, order);
        const bool may_be_nan = column.is_floating_point();
        const auto sorted = may_be_nan ? column.neg().sort(true, 0, true) : column.sort(true, 0, false);
        order = order.index_select(0, std::get<1>(sorted));
    }
    const Groups groups = group(differs(rows.index_select(0, order)), order, return_inverse, return_counts);
    return gather_slices(self, dim, groups, order);
}

Three unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim)
{
    if (dim)
        return torch_ocl::unique_dim_consecutive(self, *dim, return_inverse, return_counts);
    if (self.numel() == 0)
        return empty_result(self);
    const at::Tensor flat = self.reshape(-1);
    const Groups groups = group(differs(flat), {}, return_inverse, return_counts);
    return {flat.index_select(0, groups.starts), return_inverse ? groups.inverse.view(self.sizes()) : groups.inverse,
            groups.counts};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_unique", unique);
    m.impl("_unique2", unique2);
    m.impl("unique_dim", unique_dim);
    m.impl("unique_consecutive", unique_consecutive);
    m.impl("unique_dim_consecutive", unique_dim_consecutive);
}

}  // namespace torch_ocl
