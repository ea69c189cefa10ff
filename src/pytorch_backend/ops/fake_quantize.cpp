// Fake quantisation, as training for quantised models has it: rounded to the whole numbers of a scale and back.
#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <clprim/pointwise.hpp>

#include <ops/outputs.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

constexpr const char* zero_point_outside = "`zero_point` must be between `quant_min` and `quant_max`.";

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
Two quantize(const Tensor& self, const Number& inverse, const Number& scale, const Point& zero, int64_t low,
             int64_t high)
{
    const Tensor whole = at::round(widened(self) * inverse) + zero;
    const Tensor mask = at::logical_and(whole >= low, whole <= high);
    return {((whole.clamp(low, high) - zero) * scale).to(self.scalar_type()), mask};
}

Two per_tensor(const Tensor& self, double scale, int64_t zero, int64_t low, int64_t high)
{
    check("fake_quantize_per_tensor_affine", self, low, high);
    TORCH_CHECK(zero >= low && zero <= high, zero_point_outside);
    const c10::OptionalDeviceGuard guard(self.device());
    const float narrow = static_cast<float>(scale);
    return quantize(self, at::Scalar(1.0f / narrow), at::Scalar(narrow), at::Scalar(zero), low, high);
}

Two per_tensor_on_device(const Tensor& self, const Tensor& scale, const Tensor& zero, const Tensor& enabled,
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

Two per_channel(const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t axis, int64_t low, int64_t high)
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
    if (!at::isFloatingType(zero.scalar_type())) {
        const Tensor points = zero.contiguous();
        clprim::require_within(current_queue(points), view(points), static_cast<double>(low),
                               static_cast<double>(high), zero_point_outside);
    }
    std::vector<int64_t> shape(self.dim(), 1);
    shape[axis] = -1;
    const Tensor s = scale.view(shape).to(at::kFloat), z = zero.view(shape);
    return quantize(self, s.reciprocal(), s, z, low, high);
}

// ---- with an observer: the range of what has been seen gives scale and zero point ----

Tensor first(const Tensor& tensor, int64_t count) { return tensor.reshape(-1).narrow(0, 0, count); }

// Running extremes move towards those of the tensor, or begin there. x0, x1: extremes; x2, x3: running; x4: switch.
constexpr const char* moving_extremes =
    "y0 = x4 == 0 ? x2 : isinf(x2) ? x0 : x2 + w0 * (x0 - x2);"
    "y1 = x4 == 0 ? x3 : isinf(x3) ? x1 : x3 + w0 * (x1 - x3);";

// Scale and zero point of a range (x0, x1) for whole numbers from w0 to w1; w2: zero is to lie in their middle.
// x2, x3: what is kept where the switch x4 is off. Zero always has a whole number of its own.
constexpr const char* quantization_parameters =
    "float low = x0, high = x1, steps = w1 - w0;"
    "bool middle = w2 != 0 && low < 0 && high > 0;"
    "float below = -(float)((int)steps / 2 + 1), above = (float)((int)steps / 2);"
    "float widest = fmax(fabs(low / below), fabs(high / above));"
    "low = middle ? widest * below : fmin(low, 0.0f);"
    "high = middle ? widest * above : fmax(high, 0.0f);"
    // Numbers half way between two steps are common: the scale is rounded once, as if it were computed in double.
    "float span = high - low, lost = high > -low ? (high - span) - low : (-low - span) + high;"
    "float scale = span / steps;"
    "scale += (fma(-scale, steps, span) + lost) / steps;"
    "bool nothing = scale == 0 || isinf(1 / scale);"
    "float from_low = nothing ? w0 : w0 - low * steps / (high - low);"
    "float from_high = nothing ? w1 : w1 - high * steps / (high - low);"
    "float zero = fabs(w0) - fabs(from_low - w0) < fabs(w1) - fabs(from_high - w1) ? from_low : from_high;"
    "zero = middle ? (w0 + w1) / 2 : zero;"
    "y0 = x4 == 0 ? x2 : nothing ? 0.1f : fmax(scale, 6.1e-5f);"     // no reciprocal overflows a float16
    "y1 = x4 == 0 ? x3 : (typeof_y1)rint(fmin(fmax(zero, w0), w1));";

// Observer and quantisation are switched by numbers on the device: nothing waits for them.
Two observe_and_quantize(const Tensor& self, const Tensor& observer_on, const Tensor& fake_quant_on,
                         Tensor& running_min, Tensor& running_max, Tensor& scale, Tensor& zero_point,
                         double averaging_const, int64_t low, int64_t high, int64_t axis, bool per_row, bool symmetric)
{
    TORCH_CHECK(axis < self.dim(), "Error in fused_moving_avg_obs_fake_quant: ch_axis must be < self.dim()");
    TORCH_CHECK(!per_row || axis == 0,
                "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
    TORCH_CHECK(low < high, "fused_moving_avg_obs_fake_quant: quant_min must be less than quant_max, got ", low,
                " and ", high);
    const c10::OptionalDeviceGuard guard(self.device());
    const int64_t count = per_row ? self.size(0) : 1;
    if (per_row && running_min.numel() == 0) {
        running_min.resize_(count).fill_(INFINITY);
        running_max.resize_(count).fill_(-INFINITY);
        scale.resize_(count);
        zero_point.resize_(count);
    }
    const auto [least, most] = per_row ? at::aminmax(self.reshape({count, -1}), 1) : at::aminmax(self);
    const Tensor ranges[] = {first(running_min, count), first(running_max, count)};
    const Tensor found[] = {first(scale, count), first(zero_point, count)};
    const Tensor observes = first(observer_on, 1), quantizes = first(fake_quant_on, 1);
    clprim::Queue& queue = current_queue(self);
    clprim::pointwise(queue, {view(least), view(most), view(ranges[0]), view(ranges[1]), view(observes)},
                      {view(ranges[0]), view(ranges[1])}, {clprim::Scalar(averaging_const)}, moving_extremes);
    clprim::pointwise(queue, {view(ranges[0]), view(ranges[1]), view(found[0]), view(found[1]), view(quantizes)},
                      {view(found[0]), view(found[1])},
                      {clprim::Scalar(low), clprim::Scalar(high), clprim::Scalar(symmetric ? 1 : 0)},
                      quantization_parameters);
    std::vector<int64_t> shape(self.dim(), 1);
    if (per_row)
        shape[0] = -1;
    const Tensor s = found[0].reshape(shape), z = found[1].reshape(shape);
    const auto [result, mask] = quantize(self, s.reciprocal(), s, z, low, high);
    const Tensor on = quantizes.reshape({}) != 0;
    return {at::where(on, result, self), at::where(on, mask, at::ones_like(mask))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("fake_quantize_per_tensor_affine_cachemask", per_tensor);
    m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", per_tensor_on_device);
    m.impl("fake_quantize_per_channel_affine_cachemask", per_channel);
    m.impl("_fused_moving_avg_obs_fq_helper", observe_and_quantize);
}

}  // namespace
}  // namespace torch_ocl
