// Convolution. Everything (conv1d to conv3d, transposed, `same` padding, complex) reaches the two overrideable entries.
#include <ATen/ops/empty.h>
#include <ATen/native/ConvUtils.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/conv.hpp>
#include <torch/library.h>

#include <ops/activation_name.hpp>
#include <runtime/prepared_constants.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

clprim::Dims dims(at::IntArrayRef list)
{
    return clprim::Dims(std::span<const std::int64_t>(list.data(), list.size()));
}

clprim::ConvOptions conv_options(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                 bool transposed, at::IntArrayRef output_padding, std::int64_t groups)
{
    clprim::ConvOptions options;
    options.stride = dims(stride);
    options.pad_begin = options.pad_end = dims(padding);
    options.dilation = dims(dilation);
    if (transposed) {
        options.output_padding = dims(output_padding);
        for (std::size_t i = 0; i < output_padding.size(); ++i)
            TORCH_CHECK(output_padding[i] < stride[i] || output_padding[i] < dilation[i],
                        "output padding must be smaller than either stride or dilation, but got output_padding: ",
                        output_padding, " stride: ", stride, " dilation: ", dilation);
    }
    options.groups = groups;
    options.transposed = transposed;
    return options;
}

// The layout that PyTorch gives results of a convolution: channels_last if the input or the weight has it.
at::MemoryFormat result_format(const at::Tensor& input, const at::Tensor& weight)
{
    for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d}) {
        const bool fits = input.dim() == (format == at::MemoryFormat::ChannelsLast ? 4 : 5);
        if (fits && (input.suggest_memory_format() == format || weight.suggest_memory_format() == format))
            return format;
    }
    return at::MemoryFormat::Contiguous;
}

void check_arguments(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& other, const char* other_name)
{
    TORCH_CHECK(input.device() == weight.device(), "Expected all tensors to be on the same device, but found at least "
                "two devices, ", input.device(), " and ", weight.device(), "!");
    TORCH_CHECK_NOT_IMPLEMENTED(input.scalar_type() != at::kBool, "\"convolution\" not implemented for 'Bool'");
    TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.dtype(), ") and weight type (",
                weight.dtype(), ") should be the same");
    if (!other.defined())
        return;
    TORCH_CHECK(input.device() == other.device(), "Expected all tensors to be on the same device, but found at least "
                "two devices, ", input.device(), " and ", other.device(), "!");
    TORCH_CHECK(input.scalar_type() == other.scalar_type(), "Input type (", input.dtype(), ") and ", other_name,
                " type (", other.dtype(), ") should be the same");
}

struct Operands {
    at::Tensor x, w, bias;
    at::MemoryFormat format;
};

Operands operands(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias_option)
{
    const at::Tensor bias = bias_option.value_or(at::Tensor());
    check_arguments(input, weight, bias, "bias");
    const at::MemoryFormat format = result_format(input, weight);
    return {input.contiguous(format), weight.contiguous(format), bias.defined() ? bias.contiguous() : bias, format};
}

void run(const Operands& of, const at::Tensor& y, const clprim::ConvOptions& options)
{
    clprim::conv_forward(current_queue(y), view(of.x), view(of.w),
                         of.bias.defined() ? view(of.bias) : clprim::Tensor(), view(y), options);
}

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                    const clprim::ConvOptions& options)
{
    const Operands of = operands(input, weight, bias);
    const clprim::Dims shape = clprim::conv_output_shape(view(of.x).shape, view(of.w).shape, options);
    const at::Tensor y = empty({shape.data(), shape.size()}, input.scalar_type(), input.device(), of.format);
    run(of, y, options);
    return y;
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups)
{
    const c10::OptionalDeviceGuard guard(input.device());
    TORCH_CHECK_NOT_IMPLEMENTED(!transposed || input.scalar_type() == at::kLong ||
                                    !at::isIntegralType(input.scalar_type(), true),
                                "transposed \"convolution\" not implemented for '", input.scalar_type(), "'");
    return convolve(input, weight, bias, conv_options(stride, padding, dilation, transposed, output_padding, groups));
}

// A convolution and its activation (by name, with its two numbers) in one launch, for compiled graphs. What is derived
// from a weight that never changes is kept.
at::Tensor fused_convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                             at::IntArrayRef output_padding, std::int64_t groups, c10::string_view activation,
                             double alpha, double beta, bool constant_weight)
{
    const c10::OptionalDeviceGuard guard(input.device());
    auto options = conv_options(stride, padding, dilation, transposed, output_padding, groups);
    options.activation = activation_named(activation, "fused_convolution");
    options.alpha = static_cast<float>(alpha), options.beta = static_cast<float>(beta);
    options.prepared = constant_weight ? prepared_of(weight) : nullptr;
    return convolve(input, weight, bias, options);
}

// result = activation(result + convolution)
void fused_convolution_add_(const at::Tensor& result, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                            std::int64_t groups, c10::string_view activation, double alpha, double beta,
                            bool constant_weight)
{
    const c10::OptionalDeviceGuard guard(input.device());
    auto options = conv_options(stride, padding, dilation, transposed, output_padding, groups);
    options.activation = activation_named(activation, "fused_convolution_add_");
    options.alpha = static_cast<float>(alpha), options.beta = static_cast<float>(beta);
    options.prepared = constant_weight ? prepared_of(weight) : nullptr;
    options.accumulate = true;
    run(operands(input, weight, bias), result, options);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> output_mask)
{
    check_arguments(input, weight, grad_output, "grad_output");
    const c10::OptionalDeviceGuard guard(input.device());
    const auto options = conv_options(stride, padding, dilation, transposed, output_padding, groups);
    const at::MemoryFormat format = result_format(input, weight);
    const at::Tensor dy = grad_output.contiguous(format);
    clprim::Queue& queue = current_queue(input);
    at::Tensor grad_input, grad_weight, grad_bias;
    if (output_mask[0]) {
        const at::Tensor w = weight.contiguous(format);
        grad_input = empty(input.sizes(), input.scalar_type(), input.device(), format);
        clprim::conv_backward_data(queue, view(dy), view(w), view(grad_input), options);
    }
    if (output_mask[1]) {
        const at::Tensor x = input.contiguous(format);
        grad_weight = empty(weight.sizes(), weight.scalar_type(), weight.device(), format);
        clprim::conv_backward_weight(queue, view(x), view(dy), view(grad_weight), options);
    }
    if (output_mask[2]) {
        grad_bias = empty({dy.size(1)}, dy.scalar_type(), dy.device());
        clprim::conv_backward_bias(queue, view(dy), view(grad_bias));
    }
    return {grad_input, grad_weight, grad_bias};
}

#define CONVOLUTION_ARGUMENTS                                                                                          \
    "Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, "        \
    "int[] output_padding, int groups, str activation, float alpha, float beta, bool constant_weight=False"

TORCH_LIBRARY_FRAGMENT(torch_ocl, m)
{
    m.def("fused_convolution(" CONVOLUTION_ARGUMENTS ") -> Tensor");
    m.def("fused_convolution_add_(Tensor(a!) result, " CONVOLUTION_ARGUMENTS ") -> ()");
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m)
{
    m.impl("fused_convolution", fused_convolution);
    m.impl("fused_convolution_add_", fused_convolution_add_);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("convolution_overrideable", convolution);
    m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace
}  // namespace torch_ocl
