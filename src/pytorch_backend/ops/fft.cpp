// Fourier transforms over any axes: clprim transforms the lines along one axis after the other.
#include <ATen/native/Resize.h>
#include <ATen/native/SpectralOpsUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/real.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/fft.hpp>
#include <torch/library.h>

#include <cmath>

#include <ops/outputs.hpp>
#include <runtime/errors.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

// A result may be a transposed buffer of its own, which is no view to autograd. What PyTorch's Python references call
// comes here above the place where views are noted (`no_views` below).

// The factor that a transform over `dims` of a signal of those sizes is multiplied by.
double scale_of(at::IntArrayRef sizes, at::IntArrayRef dims, int64_t normalization)
{
    const auto mode = static_cast<at::native::fft_norm_mode>(normalization);
    if (mode == at::native::fft_norm_mode::none)
        return 1;
    double count = 1;
    for (const int64_t dim : dims)
        count *= static_cast<double>(sizes[dim]);
    return 1 / (mode == at::native::fft_norm_mode::by_root_n ? std::sqrt(count) : count);
}

// `compute` from the lines of `self` along `dim` into those of a new tensor of another length and dtype. Lines lie side
// by side, or one after the other where `self` has to be moved for that.
template <class Compute>
at::Tensor through_lines(const at::Tensor& self, int64_t dim, int64_t size, at::ScalarType dtype,
                         const Compute& compute)
{
    const at::Tensor from = self.contiguous();
    std::vector<int64_t> sizes = from.sizes().vec();
    sizes[dim] = size;
    const at::Tensor to = at::empty(sizes, self.options().dtype(dtype));
    if (to.numel() != 0) {
        const int64_t inner = c10::multiply_integers(sizes.begin() + dim + 1, sizes.end());
        translate_errors([&] {
            compute(view(from.view({-1, from.size(dim), inner})), view(to.view({-1, size, inner})));
        });
    }
    return to;
}

at::Tensor transform_axis(const at::Tensor& self, int64_t dim, bool forward, double scale)
{
    return through_lines(self, dim, self.size(dim), self.scalar_type(), [&](const auto& from, const auto& to) {
        clprim::fft(current_queue(self), from, !forward, to, scale);
    });
}

// Lines of real numbers along `dim` to the first half of their terms, or back.
at::Tensor transform_real_axis(const at::Tensor& self, int64_t dim, int64_t size, bool inverse, double scale)
{
    const at::Tensor lines = self.transpose(dim, -1);
    const auto dtype = inverse ? at::toRealValueType(self.scalar_type()) : at::toComplexType(self.scalar_type());
    const auto compute = [&](const clprim::Tensor& from, const clprim::Tensor& to) {
        const auto rows = [](const clprim::Tensor& x) { return x.reshape({x.size(0), x.size(1)}); };
        (inverse ? clprim::irfft : clprim::rfft)(current_queue(self), rows(from), rows(to), scale);
    };
    return through_lines(lines, self.dim() - 1, inverse ? size : size / 2 + 1, dtype, compute).transpose(dim, -1);
}

bool takes_real(const at::Tensor& self, int64_t size)
{
    return clprim::takes_real_lines(current_queue(self), data_type(at::toRealValueType(self.scalar_type())), size);
}

// The last axis first, as in PyTorch; the whole factor with the last one transformed.
at::Tensor transform(at::Tensor x, at::IntArrayRef dims, bool forward, double scale)
{
    for (std::size_t i = dims.size(); i-- > 0;)
        x = transform_axis(x, dims[i], forward, i == 0 ? scale : 1);
    return x;
}

at::Tensor fft_c2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool forward)
{
    TORCH_CHECK(self.is_complex(), "_fft_c2c expected complex input, got ", self.scalar_type());
    if (dims.empty())
        return self.clone();
    const c10::OptionalDeviceGuard guard(self.device());
    const at::AutoDispatchBelowADInplaceOrView no_views;
    return transform(self, dims, forward, scale_of(self.sizes(), dims, normalization)).contiguous();
}

at::Tensor fft_r2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided)
{
    TORCH_CHECK_TYPE(self.is_floating_point(), "_fft_r2c expected floating-point input, got ", self.scalar_type());
    TORCH_CHECK(!dims.empty(), "_fft_r2c expected at least one dimension");
    const c10::OptionalDeviceGuard guard(self.device());
    const at::AutoDispatchBelowADInplaceOrView no_views;
    const double scale = scale_of(self.sizes(), dims, normalization);
    if (!onesided)
        return transform(self.to(at::toComplexType(self.scalar_type())), dims, true, scale).contiguous();
    // The other half follows by symmetry: the remaining axes are spared half of the work.
    const int64_t last = dims.back();
    const double last_scale = dims.size() == 1 ? scale : 1;
    const at::Tensor x = takes_real(self, self.size(last))
                             ? transform_real_axis(self, last, self.size(last), false, last_scale)
                             : transform_axis(self.to(at::toComplexType(self.scalar_type())), last, true, last_scale)
                                   .narrow(last, 0, self.size(last) / 2 + 1);
    return transform(x, dims.slice(0, dims.size() - 1), true, scale).contiguous();
}

at::Tensor fft_c2r(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_size)
{
    TORCH_CHECK(self.is_complex(), "_fft_c2r expected complex input, got ", self.scalar_type());
    TORCH_CHECK(!dims.empty() && last_size >= 1, "_fft_c2r expected at least one dimension and one element of output");
    const int64_t last = dims.back(), half = last_size / 2 + 1;
    TORCH_CHECK(self.size(last) >= half, "_fft_c2r expected ", half, " elements or more in dimension ", last, ", got ",
                self.size(last));
    const c10::OptionalDeviceGuard guard(self.device());
    const at::AutoDispatchBelowADInplaceOrView no_views;
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[last] = last_size;
    const double scale = scale_of(sizes, dims, normalization);
    at::Tensor x = transform(self, dims.slice(0, dims.size() - 1), false, 1).narrow(last, 0, half);
    if (takes_real(self, last_size))
        return transform_real_axis(x, last, last_size, true, scale).contiguous();
    if (last_size > half)   // element n - k is the conjugate of element k
        x = at::cat({x, x.narrow(last, 1, last_size - half).flip(last).conj()}, last);
    return at::real(transform_axis(x, last, false, scale)).contiguous();
}

at::Tensor& assign(at::Tensor& out, const at::Tensor& value)
{
    return assign_output(out, value);
}

at::Tensor& fft_c2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool forward,
                        at::Tensor& out)
{
    return assign(out, fft_c2c(self, dims, normalization, forward));
}

at::Tensor& fft_r2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided,
                        at::Tensor& out)
{
    return assign(out, fft_r2c(self, dims, normalization, onesided));
}

at::Tensor& fft_c2r_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_size,
                        at::Tensor& out)
{
    return assign(out, fft_c2r(self, dims, normalization, last_size));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fft_c2c", fft_c2c);
    m.impl("_fft_c2c.out", fft_c2c_out);
    m.impl("_fft_r2c", fft_r2c);
    m.impl("_fft_r2c.out", fft_r2c_out);
    m.impl("_fft_c2r", fft_c2r);
    m.impl("_fft_c2r.out", fft_c2r_out);
}

}  // namespace
}  // namespace torch_ocl
