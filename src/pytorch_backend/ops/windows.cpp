// Window functions that PyTorch does not compose of other operators.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/special_i0e.h>
#include <torch/library.h>

#include <cmath>

namespace torch_ocl {
namespace {

using at::Tensor;

double scaled_i0(double x)
{
    return at::special_i0e(at::scalar_tensor(x, at::kDouble)).item<double>();
}

// I0(beta s) / I0(beta) with s = sqrt(1 - t^2), t from -1 to 1: scaled functions of Bessel's do not overflow, and
// beta s - beta is written so that nothing cancels.
Tensor kaiser(const Tensor& t, double beta)
{
    if (std::isinf(beta))
        return t.eq(0).to(t.scalar_type());
    const Tensor square = t * t, s = square.neg().add_(1).clamp_min_(0).sqrt_();
    const Tensor below = square.div_(s + 1).mul_(-beta).exp_();
    return at::special_i0e(s * beta).mul_(below).div_(scaled_i0(beta));
}

Tensor kaiser_window(int64_t length, bool periodic, double beta, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pinned)
{
    const at::ScalarType type = dtype.value_or(c10::get_default_dtype_as_scalartype());
    const auto options = at::TensorOptions().dtype(type).layout(layout).device(device).pinned_memory(pinned);
    TORCH_CHECK(options.layout() != at::kSparse, "kaiser_window is not implemented for sparse types, got: ", options);
    TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type),
                "kaiser_window expects floating point dtypes, got: ", options);
    TORCH_CHECK(length >= 0, "kaiser_window requires non-negative window_length, got window_length=", length);
    if (length <= 1)
        return length == 0 ? at::empty({0}, options) : at::ones({1}, options);
    const auto last = static_cast<double>(periodic ? length : length - 1);
    const auto wide = options.dtype(at::toOpMathType(at::toRealValueType(type)));
    const Tensor t = at::arange(length, wide).mul_(2).sub_(last).div_(last);
    return kaiser(t, std::abs(beta)).to(type);
}

Tensor kaiser_window_periodic(int64_t length, bool periodic, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device,
                              std::optional<bool> pinned)
{
    return kaiser_window(length, periodic, 12, dtype, layout, device, pinned);
}

Tensor kaiser_window_usual(int64_t length, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pinned)
{
    return kaiser_window(length, true, 12, dtype, layout, device, pinned);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("kaiser_window", kaiser_window_usual);
    m.impl("kaiser_window.periodic", kaiser_window_periodic);
    m.impl("kaiser_window.beta", kaiser_window);
}

}  // namespace
}  // namespace torch_ocl
