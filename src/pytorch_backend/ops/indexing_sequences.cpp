// Tensors made from positions: arange, range, linspace, logspace, eye, tril, triu, flip, roll and index lists.
#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Pow.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/roll_native.h>
#include <ATen/ops/tril_indices.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/triu_meta.h>
#include <torch/library.h>

#include <clprim/sequence.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

namespace {

// Writes a sequence of n numbers to `out`, which may have any shape of n elements and any strides.
template <class Write>
at::Tensor& write_sequence(at::Tensor& out, const Write& write)
{
    at::assert_no_internal_overlap(out);
    if (out.dim() == 1) {
        write(out);
        return out;
    }
    const at::Tensor line = at::empty({out.numel()}, out.options());
    write(line);
    return out.copy_(line.view(out.sizes()));
}

void start_step(const at::Tensor& out, const at::Scalar& start, const at::Scalar& step)
{
    clprim::Queue& queue = current_queue(out);
    if (c10::isIntegralType(out.scalar_type(), false))
        clprim::arange(queue, view(out), start.to<int64_t>(), step.to<int64_t>());
    else
        clprim::arange(queue, view(out), start.to<double>(), step.to<double>());
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out)
{
    AT_DISPATCH_V2(out.scalar_type(), "arange_ocl", AT_WRAP([&] {
        const int64_t size = at::native::compute_arange_size<scalar_t>(start, end, step);
        if (out.numel() != size) {
            if (out.numel() > 0)
                TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                           " which does not match the computed number of elements ", size,
                           ". Note that this may occur as a result of rounding error. The out tensor will be resized "
                           "to a tensor of shape (", size, ",).");
            out.resize_({size});
        }
    }), AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16, AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
    return write_sequence(out, [&](const at::Tensor& line) { start_step(line, start, step); });
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out)
{
    at::native::arange_check_bounds(start, end, step);
    const int64_t size = static_cast<int64_t>((end.to<double>() - start.to<double>()) / step.to<double>() + 1);
    if (out.numel() != size)
        out.resize_({size});
    return write_sequence(out, [&](const at::Tensor& line) { start_step(line, start, step); });
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out)
{
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    if (out.numel() != steps)
        out.resize_({steps});
    if (steps == 0)
        return out;
    if (steps == 1)
        return out.fill_(start);
    if (out.is_complex()) {
        const auto options = out.options().dtype(c10::toRealValueType(out.scalar_type()));
        const auto a = start.toComplexDouble(), b = end.toComplexDouble();
        return out.copy_(at::complex(at::linspace(a.real(), b.real(), steps, options),
                                     at::linspace(a.imag(), b.imag(), steps, options)).view(out.sizes()));
    }
    const bool integral = c10::isIntegralType(out.scalar_type(), true);
    const auto number = [&](const at::Scalar& s) { return integral ? double(s.to<int64_t>()) : s.to<double>(); };
    return write_sequence(out, [&](const at::Tensor& line) {
        clprim::linspace(current_queue(line), view(line), number(start), number(end));
    });
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out)
{
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    if (out.numel() != steps)
        out.resize_({steps});
    if (steps == 0)
        return out;
    // Integers are cut from powers, which devices round as they like: 10 squared may come out below 100.
    if (c10::isIntegralType(out.scalar_type(), true)) {
        const auto host = out.options().device(at::kCPU).pinned_memory(false);
        return out.copy_(at::logspace(start, end, steps, base, host).view(out.sizes()));
    }
    auto options = out.options();
    if (steps == 1)
        options = options.dtype(at::toOpMathType(c10::typeMetaToScalarType(options.dtype())));
    const at::Tensor exponents = at::linspace(start, end, steps, options);
    return out.copy_(at::pow(at::Scalar(base), exponents).view(out.sizes()));
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out)
{
    TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
    TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
    out.resize_({n, m});
    out.zero_();
    if (out.numel() != 0)
        out.diagonal().fill_(1);
    return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

template <class Meta, bool upper>
at::Tensor& triangle_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out)
{
    StructuredOut<Meta> op({out});
    op.meta(self, diagonal);
    clprim::triangle(current_queue(self), view(self), diagonal, upper, view(op.output()));
    op.finish();
    return out;
}

// The lists are small and made of integers only: the host writes them.
at::Tensor triangle_indices(bool upper, int64_t row, int64_t col, int64_t offset, const at::TensorOptions& options)
{
    const auto host = options.device(at::kCPU).pinned_memory(false);
    const at::Tensor list = upper ? at::triu_indices(row, col, offset, host) : at::tril_indices(row, col, offset, host);
    return list.to(options.device());
}

template <bool upper>
at::Tensor triangle_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>)
{
    return triangle_indices(upper, row, col, offset,
                            at::TensorOptions().dtype(dtype.value_or(at::kLong)).layout(layout).device(device));
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims)
{
    const auto chosen = at::dim_list_to_bitset(dims, self.dim());
    at::Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
    std::vector<int64_t> axes;
    for (int64_t d = 0; d < self.dim(); ++d)
        if (chosen[d])
            axes.push_back(d);
    clprim::flip(current_queue(self), storage_view(self), axes, storage_view(out));
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("arange.start_out", arange_out);
    m.impl("range.out", range_out);
    m.impl("linspace.out", linspace_out);
    m.impl("logspace.out", logspace_out);
    m.impl("eye.out", eye_out);
    m.impl("eye.m_out", eye_m_out);
    m.impl("tril.out", (triangle_out<at::meta::structured_tril, false>));
    m.impl("triu.out", (triangle_out<at::meta::structured_triu, true>));
    m.impl("tril_indices", triangle_indices<false>);
    m.impl("triu_indices", triangle_indices<true>);
    m.impl("flip", flip);
    m.impl("roll", at::native::roll);   // narrow and cat
}

}  // namespace torch_ocl
