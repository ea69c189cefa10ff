// cumsum, cumprod, logcumsumexp, cummax, cummin, nonzero.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <clprim/scan.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

namespace {

using clprim::Scan;

void scan(const at::Tensor& self, int64_t dim, Scan operation, const at::Tensor& out)
{
    const bool whole = at::isIntegralType(self.scalar_type(), true) && at::isIntegralType(out.scalar_type(), false);
    const at::Tensor input = whole ? self : self.to(out.scalar_type());
    clprim::cumulative(current_queue(out), view(input), at::maybe_wrap_dim(dim, self.dim()), operation, view(out));
}

template <class Meta, Scan operation>
at::Tensor& cumulative_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor& out)
{
    StructuredOut<Meta> op({out});
    op.meta(self, dim, dtype);
    TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool || self.numel() == 0,
                                "cumulative sums and products are not implemented for 'Bool'");
    scan(self, dim, operation, op.output());
    op.finish();
    return out;
}

at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(), "logcumsumexp: not for ",
                                self.scalar_type());
    scan(shares_memory(out, {self}) ? self.clone() : self, dim, Scan::log_sum_exp, out);
    return out;
}

at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim)
{
    at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
    return logcumsumexp_out(self, dim, out);
}

template <bool largest>
void cumulative_extreme(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), largest ? "cummax" : "cummin", ": not for ", self.scalar_type());
    if (shares_memory(values, {self}) || shares_memory(indices, {self}))
        return cumulative_extreme<largest>(self.clone(), values, indices, dim);
    clprim::cumulative_extreme(current_queue(self), view(self), at::maybe_wrap_dim(dim, self.dim()), largest,
                               view(values), view(indices));
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out)
{
    TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got scalar "
                "type", out.scalar_type());
    TORCH_CHECK(self.device() == out.device(), "nonzero: Expected out tensor to be on the same device as self, ",
                self.device(), ", but got ", out.device());
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    // A new result lies dimension by dimension, as on PyTorch's devices: compressed sparse tensors take such columns as
    // they are, and ask for contiguous ones.
    const auto resize = [&](int64_t total) {
        if (at::native::resize_output(out, {total, self.dim()}))
            out.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef({total, self.dim()}),
                                                              at::IntArrayRef({int64_t{1}, total}));
    };
    if (self.numel() == 0) {
        resize(0);
        return out;
    }
    const at::Tensor input = self.contiguous();
    clprim::Queue& queue = current_queue(self);
    const clprim::NonzeroCounts counts = clprim::nonzero_count(queue, view(input));
    // The size of the result lies on the device: the one wait that PyTorch's contract asks for.
    int64_t total = 0;
    const clprim::Tensor& totals = counts.totals;
    queue.read(*totals.memory, (totals.numel() - 1) * sizeof(total), &total, sizeof(total));
    resize(total);
    clprim::nonzero_write(queue, view(input), counts, view(out));
    return out;
}

at::Tensor nonzero(const at::Tensor& self)
{
    at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
    return nonzero_out(self, out);
}

// The first `size` positions, then rows of fill_value: a result whose shape the host knows.
at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out)
{
    TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type Long but got "
                "scalar type", out.scalar_type());
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    at::native::resize_output(out, {size, self.dim()});
    out.fill_(fill_value);
    const at::Tensor found = self.nonzero();
    const int64_t count = std::min(size, found.size(0));
    if (count > 0 && self.dim() > 0)
        out.narrow(0, 0, count).copy_(found.narrow(0, 0, count));
    return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value)
{
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    // Dimension by dimension, as nonzero, and as PyTorch's fake tensors of devices but the CPU have it.
    at::Tensor out = at::empty_strided({size, self.dim()}, {1, size}, self.options().dtype(at::kLong));
    return nonzero_static_out(self, size, fill_value, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("cumsum.out", (cumulative_out<at::meta::structured_cumsum, Scan::sum>));
    m.impl("cumprod.out", (cumulative_out<at::meta::structured_cumprod, Scan::product>));
    m.impl("_logcumsumexp", logcumsumexp);
    m.impl("_logcumsumexp.out", logcumsumexp_out);
    m.impl("_cummax_helper", cumulative_extreme<true>);
    m.impl("_cummin_helper", cumulative_extreme<false>);
    m.impl("nonzero", nonzero);
    m.impl("nonzero.out", nonzero_out);
    m.impl("nonzero_static", nonzero_static);
    m.impl("nonzero_static.out", nonzero_static_out);
}

}  // namespace torch_ocl
