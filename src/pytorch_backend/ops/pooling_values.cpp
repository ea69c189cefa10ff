// max_pool1d, max_pool2d and max_pool3d: PyTorch composes them of the operators that find positions too, which are
// eight bytes to write for each result. Where nobody can ask for a gradient they find maxima alone.
#include <ATen/native/MaxPooling.h>
#include <ATen/ops/max_pool1d_native.h>
#include <ATen/ops/max_pool2d_native.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <ATen/ops/max_pool3d_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <ops/pooling.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::IntArrayRef;
using at::Tensor;
using c10::DispatchKey;

// Whether somebody differentiates, traces or transforms what the operator is composed of.
bool is_composition(const Tensor& self)
{
    static constexpr c10::DispatchKeySet watchers{
        DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::PythonDispatcher, DispatchKey::Tracer,
        DispatchKey::Functionalize, DispatchKey::Negative, DispatchKey::ZeroTensor, DispatchKey::FuncTorchBatched,
        DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchVmapMode,
        DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode};
    return (at::GradMode::is_enabled() && self.requires_grad()) || self._fw_grad(0).defined() ||
           (self.key_set() | c10::impl::tls_local_dispatch_key_set().included_).has_any(watchers);
}

// The shape and layout of the first result.
struct MaximaMeta final : at::meta::structured_max_pool2d_with_indices {
    Tensor maxima;

    const Tensor& maybe_get_output(int64_t) override { return maxima; }
    void set_output_raw_strided(int64_t i, IntArrayRef sizes, IntArrayRef, TORCH_OCL_OPTIONS_PARAMETER) override
    {
        if (i == 0)
            maxima = at::empty(sizes, options);
    }
};

Tensor pool_2d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
               bool ceil_mode)
{
    if (is_composition(self))
        return at::native::max_pool2d(self, kernel, stride, padding, dilation, ceil_mode);
    const c10::DeviceGuard guard(self.device());
    MaximaMeta op;
    op.meta(self, kernel, stride, padding, dilation, ceil_mode);
    max_pool(2, self, op.maxima, {}, sliding(2, kernel, stride, padding, dilation));
    return op.maxima;
}

Tensor pool_1d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
               bool ceil_mode)
{
    if (is_composition(self) || self.numel() == 0 || (self.dim() != 2 && self.dim() != 3))   // which it refuses
        return at::native::max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
    at::native::check_max_pool1d(self, kernel, stride, padding, dilation, ceil_mode);
    const IntArrayRef steps = stride.empty() ? kernel : stride;
    return pool_2d(self.unsqueeze(-2), {1, kernel[0]}, {1, steps[0]}, {0, padding[0]}, {1, dilation[0]}, ceil_mode)
        .squeeze(-2);
}

Tensor pool_3d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
               bool ceil_mode)
{
    if (is_composition(self))
        return at::native::max_pool3d(self, kernel, stride, padding, dilation, ceil_mode);
    const c10::DeviceGuard guard(self.device());
    const std::vector<int64_t> size = max_pool3d_size(self, kernel, stride, padding, dilation, ceil_mode);
    const Tensor maxima = at::empty({0}, self.options());
    restride(maxima, size, self);
    max_pool(3, self, maxima, {}, sliding(3, kernel, stride, padding, dilation));
    return maxima;
}

void implement_all(torch::Library& m)
{
    m.impl("max_pool1d", pool_1d);
    m.impl("max_pool2d", pool_2d);
    m.impl("max_pool3d", pool_3d);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { implement_all(m); }
// Before autograd, too: what they are composed of is differentiated.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { implement_all(m); }

}  // namespace
}  // namespace torch_ocl
