// Fake quantisation, as training for quantised models has it: rounded to the whole numbers of a scale and back.
#include <ATen/TensorOperators.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;

void check(const char* name, const Tensor& self, int64_t low, int64_t high)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"", name, "\" not implemented for '",
                                self.scalar_type(), "'");
    TORCH_CHECK(low <= high, name, ": `quant_min` should be less than or equal to `quant_max`, got ", low, " and ",
                high);
}

Tensor widened(const Tensor& self)
{
    return self.scalar_type() == at::kDouble ? self : self.to(at::kFloat);
}

// Scale and zero point are numbers or tensors that broadcast to `self`. The mask says which were in range.
template <class Number, class Point>
Pair quantize(const Tensor& self, const Number& inverse, const Number& scale, const Point& zero, int64_t low,
              int64_t high)
{
    const Tensor whole = at::round(widened(self) * inverse) + zero;
    const Tensor mask = at::logical_and(whole >= low, whole <= high);
    return {((whole.clamp(low, high) - zero) * scale).to(self.scalar_type()), mask};
}

Pair per_tensor(const Tensor& self, double scale, int64_t zero, int64_t low, int64_t high)
{
    check("fake_quantize_per_tensor_affine", self, low, high);
    const c10::OptionalDeviceGuard guard(self.device());
    const float narrow = static_cast<float>(scale);
    return quantize(self, at::Scalar(1.0f / narrow), at::Scalar(narrow), at::Scalar(zero), low, high);
}

Pair per_tensor_on_device(const Tensor& self, const Tensor& scale, const Tensor& zero, const Tensor& enabled,
                          int64_t low, int64_t high)
{
    check("fake_quantize_per_tensor_affine", self, low, high);
    const c10::OptionalDeviceGuard guard(self.device());
    const Tensor s = scale.reshape(-1).narrow(0, 0, 1).squeeze(0), z = zero.reshape(-1).narrow(0, 0, 1).squeeze(0);
    const auto [result, mask] = quantize(self, s.reciprocal(), s, z, low, high);
    // Whether it is switched on lies on the device: nothing waits for it.
    const Tensor on = enabled.reshape(-1).narrow(0, 0, 1).squeeze(0) >= 1;
    return {at::where(on, result, self), at::where(on, mask, at::ones_like(mask))};
}

Pair per_channel(const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t axis, int64_t low, int64_t high)
{
    const char* name = "fake_quantize_per_channel_affine";
    check(name, self, low, high);
    TORCH_CHECK(scale.scalar_type() == at::kFloat || scale.scalar_type() == at::kBFloat16,
                "Scale must be Float or BFloat16, found ", scale.scalar_type());
    TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
    TORCH_CHECK(zero.dim() == 1, "zero point should be a 1-D tensor");
    TORCH_CHECK(scale.numel() == zero.numel(), "scale and zero-point need to have the same dimensions");
    TORCH_CHECK(axis >= 0 && axis < self.dim() && scale.numel() == self.size(axis),
                "dimensions of scale and zero-point are not consistent with input tensor");
    const c10::OptionalDeviceGuard guard(self.device());
    std::vector<int64_t> shape(self.dim(), 1);
    shape[axis] = -1;
    const Tensor s = scale.view(shape).to(at::kFloat), z = zero.view(shape);
    return quantize(self, s.reciprocal(), s, z, low, high);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("fake_quantize_per_tensor_affine_cachemask", per_tensor);
    m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", per_tensor_on_device);
    m.impl("fake_quantize_per_channel_affine_cachemask", per_channel);
}

}  // namespace
}  // namespace torch_ocl
