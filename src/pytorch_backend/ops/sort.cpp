// sort, topk, kthvalue, median, mode.
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <clprim/sort.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

namespace {

TwoOut sort_out(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, at::Tensor& values,
                at::Tensor& indices)
{
    StructuredOut<at::meta::structured_sort_stable> op({values, indices});
    op.meta(self, stable, dim, descending);
    TORCH_CHECK(!self.is_complex(), "Sort currently does not support complex dtypes");
    clprim::sort(current_queue(self), view(self), at::maybe_wrap_dim(dim, self.dim()), descending, view(op.output(0)),
                 view(op.output(1)));
    op.finish();
    return {values, indices};
}

TwoOut topk_out(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, at::Tensor& values,
                at::Tensor& indices)
{
    StructuredOut<at::meta::structured_topk> op({values, indices});
    op.meta(self, k, dim, largest, sorted);
    clprim::topk(current_queue(self), view(self), at::maybe_wrap_dim(dim, self.dim()), largest, view(op.output(0)),
                 view(op.output(1)));
    op.finish();
    return {values, indices};
}

// Gives results to the tensors of an `out` call; `dim` was kept with size 1.
TwoOut give(at::Tensor result, at::Tensor places, const at::Tensor& self, int64_t dim, bool keepdim, TwoOut out)
{
    auto& [values, indices] = out;
    if (!keepdim && self.dim() > 0) {
        result = result.squeeze(dim);
        places = places.squeeze(dim);
    }
    return {assign_output(values, result), assign_output(indices, places)};
}

// `out` where nothing converts: values of self's dtype and positions of int64.
void check_out(const char* name, const at::Tensor& self, const at::Tensor& values, const at::Tensor& indices)
{
    at::checkScalarType(name, {indices, "indices", 1}, at::kLong);
    at::checkSameType(name, {values, "values", 0}, {self, "self", 2});
}

TwoOut kthvalue_out(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::Tensor& values,
                    at::Tensor& indices)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    const int64_t n = self.dim() ? self.size(dim) : 1;
    at::native::zero_numel_check_dims(self, dim, "kthvalue()");
    TORCH_CHECK(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", dim);
    at::assert_no_overlap(self, values);
    check_out("kthvalue", self, values, indices);
    TORCH_CHECK_NOT_IMPLEMENTED(self.dim() == 0 || (self.scalar_type() != at::kBool && !self.is_complex()),
                                "\"kthvalue\" not implemented for '", c10::toString(self.scalar_type()), "'");
    auto sizes = self.sizes().vec();
    if (self.dim())
        sizes[dim] = k;
    const at::Tensor smallest = at::empty(sizes, self.options());
    const at::Tensor places = at::empty(sizes, self.options().dtype(at::kLong));
    clprim::topk(current_queue(self), view(self), dim, false, view(smallest), view(places));
    if (self.dim() == 0)
        return give(smallest, places, self, dim, keepdim, {values, indices});
    return give(smallest.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1), self, dim, keepdim, {values, indices});
}

// The median of each row, with NaN (sorted last) either winning or left out.
Two median_along(const at::Tensor& self, int64_t dim, bool ignore_nan)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool && !self.is_complex(),
                                "\"median\" not implemented for '", c10::toString(self.scalar_type()), "'");
    const at::Tensor rows = self.dim() ? self : self.unsqueeze(0);
    const auto [sorted, order] = at::sort(rows, true, dim, false);
    const int64_t n = rows.size(dim);
    if (!c10::isFloatingType(self.scalar_type()))
        return {sorted.narrow(dim, (n - 1) / 2, 1), order.narrow(dim, (n - 1) / 2, 1)};
    const at::Tensor numbers = sorted.eq(sorted).sum(dim, true);   // NaN is not equal to itself
    const at::Tensor place = ignore_nan ? numbers.sub(1).clamp_min_(0).floor_divide_(2)
                                        : at::where(numbers.eq(n), (n - 1) / 2, numbers);
    return {sorted.gather(dim, place), order.gather(dim, place)};
}

template <bool ignore_nan>
TwoOut median_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, dim, "median()");
    check_out("median", self, values, indices);
    auto [result, places] = median_along(self, dim, ignore_nan);
    if (self.dim() == 0) {
        result = result.squeeze(0);
        places = places.squeeze(0);
    }
    return give(result, places, self, dim, keepdim, {values, indices});
}

template <bool ignore_nan>
at::Tensor median(const at::Tensor& self)
{
    if (self.numel() == 0)      // of integers: what the CPU makes of NaN
        return at::full({}, std::numeric_limits<float>::quiet_NaN(), at::kFloat)
            .to(self.scalar_type())
            .to(self.device());
    return std::get<0>(median_along(self.reshape(-1), 0, ignore_nan)).squeeze(0);
}

Two mode(const at::Tensor& self, int64_t dim, bool keepdim)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() || self.numel() == 0, "\"mode\" not implemented for '",
                                c10::toString(self.scalar_type()), "'");
    dim = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, dim, "mode()");
    const at::Tensor rows = self.dim() ? self.movedim(dim, -1).contiguous() : self.unsqueeze(0);
    const auto [sorted, order] = at::sort(rows, true, -1, false);
    const auto sizes = rows.sizes().slice(0, rows.dim() - 1);
    at::Tensor values = at::empty(sizes, self.options());
    at::Tensor indices = at::empty(sizes, self.options().dtype(at::kLong));
    clprim::mode(current_queue(self), view(sorted.contiguous()), view(order.contiguous()), view(values), view(indices));
    if (keepdim && self.dim())
        return {values.unsqueeze(dim), indices.unsqueeze(dim)};
    return {values, indices};
}

TwoOut mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices)
{
    check_out("mode", self, values, indices);
    const auto [result, places] = torch_ocl::mode(self, dim, keepdim);
    return {assign_output(values, result), assign_output(indices, places)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("sort.values_stable", sort_out);
    m.impl("topk.values", topk_out);
    m.impl("kthvalue.values", kthvalue_out);
    m.impl("median", median<false>);
    m.impl("nanmedian", median<true>);
    m.impl("median.dim_values", median_out<false>);
    m.impl("nanmedian.dim_values", median_out<true>);
    m.impl("mode", mode);
    m.impl("mode.values", mode_out);
}

}  // namespace torch_ocl
