// Convolutions: ordinary, transposed, deformable, and causal with a carried state.
#include <algorithm>
#include <array>

#include <clprim/concat.hpp>
#include <clprim/context.hpp>
#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/deform_conv.hpp>
#include <clprim/pointwise.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/fused_activation.hpp"
#include "onnx/ops/support.hpp"
#include "onnx/ops/windows.hpp"

namespace clprim::onnx {

namespace {

// Kernels for CPUs run fastest with channels innermost, once there are enough of them to fill vectors; those for tile
// registers, which pay for halves, take pixels in their place.
bool prefers_channels_last(const Call& call, const Tensor& x, std::int64_t out_channels)
{
    if (x.is_channels_last() && !x.is_contiguous())
        return true;
    const Device& device = call.queue().device();
    return x.dim() <= 4 && out_channels >= 16 && device.kind == DeviceKind::cpu &&
           (!device.amx || size_of(x.dtype) >= size_of(DataType::float32));
}

Dims kernel_of(const Call& call, const Dims& x, const Dims& w)
{
    call.check(w.size() == x.size(), "weights ", to_string(w), " and input ", to_string(x),
               " have different numbers of axes");
    return spatial_sizes(call, w);
}

ConvOptions conv_options(const Call& call, const Windows& windows)
{
    ConvOptions options;
    options.stride = windows.stride;
    options.dilation = windows.dilation;
    options.pad_begin = windows.pad_begin;
    options.pad_end = windows.pad_end;
    options.groups = call.integer_attribute("group", 1);
    options.prepared = call.prepared(1);
    return options;
}

void run_convolution(Call& call, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& options)
{
    const Dims shape = conv_output_shape(x.shape, w.shape, options);
    for (const std::int64_t size : shape)
        call.check(size >= 0, "the result would have shape ", to_string(shape));
    const Tensor y = output_image(call, shape, x.dtype, prefers_channels_last(call, x, shape[1]));
    call.output(0, Value(y));
    conv_forward(call.queue(), x, w, bias, y, options);
}

void check_spatial(const Call& call)
{
    call.check(call.shape(0).size() >= 3 && call.shape(0).size() <= 5, "input 0 has shape ", to_string(call.shape(0)),
               ", expected N, C and one to three spatial axes");
}

void conv(Call& call)
{
    check_spatial(call);
    const Windows w = windows(call, call.shape(0), kernel_of(call, call.shape(0), call.shape(1)));
    run_convolution(call, image(call, 0), call.tensor(1), call.has(2) ? call.contiguous(2) : Tensor(),
                    conv_options(call, w));
}

// y = act(y), for what convolutions do not take in.
void activate(const Call& call, const Tensor& y, const ActivationRow& activation, const ConvOptions& options)
{
    const Scalar numbers[] = {options.alpha, options.beta};
    const std::array operand{Input(y)};
    if (activation.row && y.numel())
        pointwise(call.queue(), pointwise_row(activation.row),
                  {operand, std::span(&y, 1), std::span(numbers, activation.numbers), y.dtype});
}

// act(y + z) where one of the two broadcasts, so that the convolution cannot add it.
Tensor add_broadcast(const Call& call, const Tensor& y, const ActivationRow& activation, const ConvOptions& options)
{
    const Tensor sum = call.allocate(broadcast(y.shape, call.shape(3)), y.dtype);
    const Scalar one = 1;
    const std::array operands{Input(y), Input(call.tensor(3))};
    if (sum.numel() == 0)
        return sum;
    pointwise(call.queue(), pointwise_row("add"), {operands, std::span(&sum, 1), std::span(&one, 1), y.dtype});
    activate(call, sum, activation, options);
    return sum;
}

// com.microsoft's FusedConv, which Session's fusions make too: act(conv(x, w) + bias + z).
void fused_conv(Call& call)
{
    check_spatial(call);
    const Windows w = windows(call, call.shape(0), kernel_of(call, call.shape(0), call.shape(1)));
    ConvOptions options = conv_options(call, w);
    const ActivationRow& activation = fused_activation(call);
    const auto parameters = call.attribute<std::vector<float>>("activation_params", {});
    options.alpha = parameters.size() > 0 ? parameters[0] : 0;
    options.beta = parameters.size() > 1 ? parameters[1] : 0;
    const Tensor x = image(call, 0), bias = call.has(2) ? call.contiguous(2) : Tensor();
    const Dims shape = conv_output_shape(x.shape, call.shape(1), options);
    call.check(!call.has(3) || call.type(3) == call.type(0), "z is ", call.has(3) ? name_of(call.type(3)) : "",
               ", expected ", name_of(call.type(0)));
    if (call.has(3) && call.shape(3) != shape) {
        const Tensor y = allocate_image(call, shape, x.dtype, prefers_channels_last(call, x, shape[1]));
        conv_forward(call.queue(), x, call.tensor(1), bias, y, options);
        return call.output(0, Value(add_broadcast(call, y, activation, options)));
    }
    const bool apart = activation.activation == Activation::tanh;
    options.activation = apart ? Activation::none : activation.activation;
    if (!call.has(3) && apart) {
        const Tensor y = output_image(call, shape, x.dtype, prefers_channels_last(call, x, shape[1]));
        conv_forward(call.queue(), x, call.tensor(1), bias, y, options);
        activate(call, y, activation, options);
        return call.output(0, Value(y));
    }
    if (!call.has(3))
        return run_convolution(call, x, call.tensor(1), bias, options);
    // Onto z itself where nobody else needs it, else onto a copy. Asked before there is another owner of its memory.
    const bool onto_z = call.overwritable(3);
    const Tensor z = call.tensor(3), placed = call.placed(shape, x.dtype, z.is_channels_last() && !z.is_contiguous());
    Tensor y = z;
    if (placed.defined() || !onto_z || !z.is_non_overlapping_and_dense()) {
        y = placed.defined() ? placed : call.allocate_like(z);
        copy(call.queue(), z, y);
    }
    options.accumulate = true;
    conv_forward(call.queue(), x, call.tensor(1), bias, y, options);
    if (apart)
        activate(call, y, activation, options);
    call.output(0, Value(y));
}

// auto_pad of transposed convolutions speaks of the output: its size is given, or input size times stride.
void pad_output(const Call& call, const Dims& in, const Dims& wanted, ConvOptions& options, const Windows& w)
{
    const bool upper = call.string_attribute("auto_pad", "NOTSET") == "SAME_UPPER";
    for (std::size_t i = 0; i < in.size(); ++i) {
        const std::int64_t full = (in[i] - 1) * options.stride[i] + w.extent(i) + options.output_padding[i];
        const std::int64_t total = std::max<std::int64_t>(0, full - wanted[i]);
        options.output_padding[i] += std::max<std::int64_t>(0, wanted[i] - full);
        options.pad_begin[i] = upper ? total / 2 : total - total / 2;
        options.pad_end[i] = total - options.pad_begin[i];
    }
}

void conv_transpose(Call& call)
{
    check_spatial(call);
    const Windows w = windows(call, call.shape(0), kernel_of(call, call.shape(0), call.shape(1)));
    const Dims in = spatial_sizes(call, call.shape(0));
    ConvOptions options = conv_options(call, w);
    options.transposed = true;
    options.output_padding = spatial_attribute(call, "output_padding", in.size(), 0);
    Dims wanted = spatial_attribute(call, "output_shape", in.size(), 0);
    if (call.has_attribute("output_shape")) {
        pad_output(call, in, wanted, options, w);
    } else if (call.string_attribute("auto_pad", "NOTSET").starts_with("SAME")) {
        for (std::size_t i = 0; i < in.size(); ++i)
            wanted[i] = in[i] * options.stride[i];
        pad_output(call, in, wanted, options, w);
    }
    run_convolution(call, image(call, 0), call.tensor(1), call.has(2) ? call.contiguous(2) : Tensor(), options);
}

// x within zeros. Only for deformable convolution, whose kernels know one padding for both ends.
Tensor padded(const Call& call, const Tensor& x, const Windows& w)
{
    Dims shape = x.shape;
    for (std::size_t i = 0; i < w.kernel.size(); ++i)
        shape[i + 2] += w.pad_begin[i] + w.pad_end[i];
    const Tensor result = call.allocate(shape, x.dtype);
    fill(call.queue(), result, 0);
    Tensor inner = result;
    for (std::size_t i = 0; i < w.kernel.size(); ++i)
        inner = inner.slice(i + 2, w.pad_begin[i], w.pad_begin[i] + x.size(i + 2));
    copy(call.queue(), x, inner);
    return result;
}

void deform_conv(Call& call)
{
    call.check(call.shape(0).size() == 4, "input 0 has shape ", to_string(call.shape(0)), ", expected N, C, H, W");
    Windows w = windows(call, call.shape(0), kernel_of(call, call.shape(0), call.shape(1)));
    DeformConv2DInputs inputs{call.tensor(0), call.tensor(2), call.tensor_or_none(4), call.tensor(1),
                              call.tensor_or_none(3)};
    if (!w.symmetric()) {
        inputs.x = padded(call, inputs.x, w);
        w.pad_begin = Dims(2, 0);
    }
    DeformConv2D parameters;
    for (std::size_t i = 0; i < 2; ++i) {
        parameters.stride[i] = w.stride[i];
        parameters.padding[i] = w.pad_begin[i];
        parameters.dilation[i] = w.dilation[i];
    }
    parameters.groups = call.integer_attribute("group", 1);
    parameters.offset_groups = call.integer_attribute("offset_group", 1);
    const Tensor y = call.allocate(deform_conv2d_shape(parameters, inputs), inputs.x.dtype);
    call.output(0, Value(y));
    deform_conv2d(call.queue(), parameters, inputs, y);
}

// A depthwise convolution over the past k - 1 elements and the new ones; the last k - 1 of both are carried on.
void causal_conv_with_state(Call& call)
{
    const Dims& x = call.shape(0);
    const Dims& w = call.shape(1);
    call.check(x.size() == 3, "input 0 has shape ", to_string(x), ", expected batch, channels, length");
    call.check(w.size() == 3 && w[0] == x[1] && w[1] == 1 && w[2] > 0, "weights ", to_string(w), " must have shape [",
               x[1], ", 1, k]");
    const std::string activation = call.string_attribute("activation", "none");
    call.check(activation == "none" || activation == "silu" || activation == "swish", "activation is '", activation,
               "', expected none, silu or swish");
    const std::int64_t carried = w[2] - 1;
    const Dims state_shape{x[0], x[1], carried};
    call.check(!call.has(3) || call.shape(3) == state_shape, "past_state must have shape ", to_string(state_shape));
    Tensor source = call.contiguous(0);
    ConvOptions options;
    options.groups = x[1];
    if (call.has(3) || call.wants(1)) {
        Tensor whole = call.allocate({x[0], x[1], carried + x[2]}, source.dtype);
        if (call.has(3))
            copy(call.queue(), call.tensor(3), whole.slice(2, 0, carried));
        else if (carried)
            fill(call.queue(), whole.slice(2, 0, carried), 0);
        copy(call.queue(), source, whole.slice(2, carried, carried + x[2]));
        source = whole;
        call.output(1, Value(whole.slice(2, x[2], x[2] + carried)));
    } else {
        options.pad_begin = {carried};
        options.pad_end = {0};
    }
    const Tensor y = call.allocate(x, source.dtype);
    conv_forward(call.queue(), source, call.tensor(1), call.has(2) ? call.contiguous(2) : Tensor(), y, options);
    if (activation == "none")
        return call.output(0, Value(y));
    pointwise_output(call, "silu", std::span(&y, 1), y.dtype);
}

// x with zeros for channels up to a whole number of blocks.
void pad_channels(Call& call)
{
    const Dims& shape = call.shape(0);
    const auto block = call.attribute<std::int64_t>("block");
    call.check(shape.size() >= 2 && block > 0, "input 0 has shape ", to_string(shape), ", expected channels");
    const std::int64_t channels = (shape[1] + block - 1) / block * block;
    if (channels == shape[1])
        return call.output(0, call.input(0));
    Dims whole = shape;
    whole[1] = channels;
    const Tensor y = call.output_tensor(0, whole, call.type(0));
    if (y.numel() == 0)
        return;
    fill(call.queue(), y.slice(1, shape[1], channels), 0);
    copy(call.queue(), call.tensor(0), y.slice(1, 0, shape[1]));
}

const OperatorRow convolution_rows[] = {
    {"Conv", 1, conv},
    {"FusedConv", 1, fused_conv, nullptr, "com.microsoft"},
    {"PadChannels", 1, pad_channels, nullptr, "clprim"},
    {"ConvTranspose", 1, conv_transpose},
    {"DeformConv", 19, deform_conv},
    {"CausalConvWithState", 27, causal_conv_with_state},
    {"CausalConvWithState", 1, causal_conv_with_state, nullptr, "com.microsoft"},
};

}  // namespace

std::span<const OperatorRow> convolution_operators() { return convolution_rows; }

}  // namespace clprim::onnx
