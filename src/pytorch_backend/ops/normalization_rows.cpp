// Layer, RMS and group norm.
#include <ATen/native/layer_norm.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/norm.hpp>
#include <torch/library.h>

#include <ops/normalization_parameters.hpp>
#include <ops/outputs.hpp>
#include <runtime/output.hpp>

namespace torch_ocl {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Shape of the saved statistics: the leading sizes, then ones.
std::vector<int64_t> statistics_shape(const at::Tensor& x, std::size_t normalized)
{
    std::vector<int64_t> shape = x.sizes().vec();
    std::fill(shape.end() - normalized, shape.end(), 1);
    return shape;
}

Three layer_norm_forward(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight_option,
                         const OptionalTensor& bias_option, double eps)
{
    const at::Tensor weight = defined_or_empty(weight_option), bias = defined_or_empty(bias_option);
    const auto [rows, n] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
    check_floating(input, "LayerNormKernelImpl");
    check_parameters(input, {weight, bias});
    const c10::OptionalDeviceGuard guard(input.device());
    const NormParameters parameter(input, {weight, bias});
    const at::Tensor x = input.contiguous(), w = parameter(weight), b = parameter(bias);
    const at::Tensor y = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
    const std::vector<int64_t> shape = statistics_shape(x, normalized_shape.size());
    const at::Tensor mean = torch_ocl::empty(shape, statistics_type(x), x.device());
    const at::Tensor rstd = torch_ocl::empty(shape, statistics_type(x), x.device());
    if (n != 0)
        clprim::layer_norm(current_queue(x), {view(x), view(y), optional_view(w), optional_view(b), view(mean),
                                              view(rstd), n, false, eps});
    return {y, mean, rstd};
}

// Gradients of the input, the weight and the bias; `rms` has neither mean nor bias.
Three row_gradients(const at::Tensor& grad_output, const at::Tensor& input, at::IntArrayRef normalized_shape,
                    const at::Tensor& mean, const at::Tensor& rstd, const at::Tensor& weight, const at::Tensor& bias,
                    std::array<bool, 3> mask, bool rms)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const NormParameters parameter(input, {weight, bias});
    const at::Tensor x = input.contiguous(), dy = grad_output.to(x.scalar_type()).contiguous(), w = parameter(weight);
    const at::ScalarType kept = statistics_type(x);
    const at::Tensor m = rms ? at::Tensor() : mean.to(kept).contiguous(), s = rstd.to(kept).contiguous();
    const at::ScalarType type = parameter.type.value_or(x.scalar_type());
    at::Tensor grads[3];
    if (mask[0])
        grads[0] = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
    for (int i : {1, 2})
        if (mask[i])
            grads[i] = torch_ocl::empty(normalized_shape, type, x.device());
    const int64_t n = c10::multiply_integers(normalized_shape);
    clprim::layer_norm_backward(current_queue(x),
                                {view(dy), view(x), optional_view(w), optional_view(m), view(s),
                                 optional_view(grads[0]), optional_view(grads[1]), optional_view(grads[2]), n, rms});
    if (mask[1] && weight.defined())
        grads[1] = grads[1].to(weight.scalar_type());
    if (mask[2] && bias.defined())
        grads[2] = grads[2].to(bias.scalar_type());
    return {grads[0], grads[1], grads[2]};
}

Three layer_norm_backward(const at::Tensor& grad_output, const at::Tensor& input, at::IntArrayRef normalized_shape,
                          const at::Tensor& mean, const at::Tensor& rstd, const OptionalTensor& weight,
                          const OptionalTensor& bias, std::array<bool, 3> output_mask)
{
    return row_gradients(grad_output, input, normalized_shape, mean, rstd, defined_or_empty(weight),
                         defined_or_empty(bias), output_mask, false);
}

std::tuple<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                    const OptionalTensor& weight_option, std::optional<double> eps)
{
    const at::Tensor weight = defined_or_empty(weight_option);
    at::native::_check_rms_norm_inputs_symint(input, c10::fromIntArrayRefSlow(normalized_shape), weight);
    check_floating(input, "rms_norm");
    const c10::OptionalDeviceGuard guard(input.device());
    const NormParameters parameter(input, {weight});
    const at::Tensor x = input.contiguous(), w = parameter(weight);
    const at::Tensor y = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
    const at::Tensor rstd =
        torch_ocl::empty(statistics_shape(x, normalized_shape.size()), statistics_type(x), x.device());
    const double epsilon = eps.value_or(x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                       : std::numeric_limits<float>::epsilon());
    const int64_t n = c10::multiply_integers(normalized_shape);
    if (n != 0)
        clprim::layer_norm(current_queue(x),
                           {view(x), view(y), optional_view(w), {}, {}, view(rstd), n, true, epsilon});
    return {y, rstd};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                     at::IntArrayRef normalized_shape, const at::Tensor& rstd,
                                                     const OptionalTensor& weight, std::array<bool, 2> output_mask)
{
    const auto [dx, dw, db] = row_gradients(grad_output, input, normalized_shape, {}, rstd, defined_or_empty(weight),
                                            {}, {output_mask[0], output_mask[1], false}, true);
    return {dx, dw};
}

Three group_norm_forward(const at::Tensor& input, const OptionalTensor& weight_option,
                         const OptionalTensor& bias_option, int64_t samples, int64_t channels, int64_t inner,
                         int64_t groups, double eps)
{
    check_floating(input, "GroupNormKernelImpl");
    const c10::OptionalDeviceGuard guard(input.device());
    const at::Tensor weight = defined_or_empty(weight_option), bias = defined_or_empty(bias_option);
    check_parameters(input, {weight, bias});
    const NormParameters parameter(input, {weight, bias});
    const at::MemoryFormat format = input.suggest_memory_format();
    const bool innermost = format != at::MemoryFormat::Contiguous && !input.is_contiguous() &&
                           input.is_contiguous(format) &&
                           clprim::group_norm_takes_channels_last(current_queue(input).device(), channels);
    const at::Tensor x = innermost ? input : input.contiguous(), w = parameter(weight), b = parameter(bias);
    const at::Tensor y = at::empty_like(input, input.options(), format);
    const at::Tensor mean = torch_ocl::empty({samples, groups}, statistics_type(x), x.device());
    const at::Tensor rstd = torch_ocl::empty({samples, groups}, statistics_type(x), x.device());
    const Output written(y, innermost ? format : at::MemoryFormat::Contiguous);
    const auto flat = [&](const at::Tensor& t) {
        return view(innermost ? t.as_strided({samples, channels, inner}, {channels * inner, 1, channels})
                              : t.view({samples, channels, inner}));
    };
    clprim::group_norm(current_queue(x), {flat(x), flat(written.tensor()), optional_view(w), optional_view(b),
                                          view(mean), view(rstd), groups, eps});
    written.finish();
    return {y, mean, rstd};
}

Three group_norm_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& rstd, const OptionalTensor& weight_option, int64_t samples,
                          int64_t channels, int64_t inner, int64_t groups, std::array<bool, 3> mask)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const at::Tensor weight = defined_or_empty(weight_option);
    const NormParameters parameter(input, {weight});
    const at::Tensor x = input.contiguous(), dy = grad_output.to(x.scalar_type()).contiguous(), w = parameter(weight);
    const at::ScalarType kept = statistics_type(x);
    const at::Tensor m = mean.to(kept).contiguous(), s = rstd.to(kept).contiguous();
    const auto flat = [&](const at::Tensor& t) { return view(t.view({samples, channels, inner})); };
    at::Tensor grads[3];
    clprim::Tensor dx;
    if (mask[0]) {
        grads[0] = at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
        dx = flat(grads[0]);
    }
    for (int i : {1, 2})
        if (mask[i])
            grads[i] = torch_ocl::empty({channels}, parameter.type.value_or(x.scalar_type()), x.device());
    clprim::group_norm_backward(current_queue(x), {flat(dy), flat(x), optional_view(w), view(m), view(s), dx,
                                                   optional_view(grads[1]), optional_view(grads[2]), groups});
    if (mask[0])
        grads[0] = grads[0].contiguous(input.suggest_memory_format());
    for (int i : {1, 2})
        if (mask[i] && weight.defined())
            grads[i] = grads[i].to(weight.scalar_type());
    return {grads[0], grads[1], grads[2]};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("native_layer_norm", layer_norm_forward);
    m.impl("native_layer_norm_backward", layer_norm_backward);
    m.impl("_fused_rms_norm", rms_norm_forward);
    m.impl("_fused_rms_norm_backward", rms_norm_backward);
    m.impl("native_group_norm", group_norm_forward);
    m.impl("native_group_norm_backward", group_norm_backward);
}

}  // namespace
}  // namespace torch_ocl
