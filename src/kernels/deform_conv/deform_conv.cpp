// Checks, choice of the implementation, empty results.
#include <clprim/copy.hpp>
#include <clprim/deform_conv.hpp>

#include <limits>
#include <numeric>
#include <span>

#include "kernels/deform_conv/problem.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace deform_conv {

cl_int Geometry::segment() const { return std::gcd(channels / groups, channels / offset_groups); }

namespace {

std::span<const Implementation> implementations()
{
    static const Implementation list[] = {cpu_amx, cpu_fused, tiled};
    return list;
}


void check_parameters(const DeformConv2D& p)
{
    for (int i = 0; i < 2; ++i) {
        require(p.stride[i] > 0, "deform_conv2d: stride_", "hw"[i], ": ", p.stride[i], " must be greater than 0");
        require(p.padding[i] >= 0, "deform_conv2d: pad_", "hw"[i], ": ", p.padding[i], " must not be negative");
        require(p.dilation[i] > 0, "deform_conv2d: dilation_", "hw"[i], ": ", p.dilation[i], " must be greater than 0");
    }
    require(p.groups > 0 && p.offset_groups > 0, "deform_conv2d: groups ", p.groups, " and offset_groups ",
            p.offset_groups, " must be greater than 0");
}

void check_dtypes(const DeformConv2DInputs& in)
{
    const DataType dtype = in.x.dtype;
    require(is_floating_point(dtype), "deform_conv2d: not implemented for ", name_of(dtype));
    for (const Tensor* t : {&in.offset, &in.mask, &in.weight, &in.bias})
        require(!t->defined() || t->dtype == dtype, "deform_conv2d: expected all tensors to have the dtype of input, ",
                name_of(dtype), ", but got ", name_of(t->dtype));
}

cl_int small(std::int64_t value)
{
    require(value <= std::numeric_limits<cl_int>::max() / 8, "deform_conv2d: a size of ", value, " is too large");
    return static_cast<cl_int>(value);
}

Geometry check(const DeformConv2D& p, const DeformConv2DInputs& in)
{
    require(in.x.defined() && in.offset.defined() && in.weight.defined(),
            "deform_conv2d: input, offset and weight are needed");
    require(in.x.dim() == 4, "deform_conv2d: input must be 4-dimensional, got ", in.x.dim(), " dimensions");
    require(in.offset.dim() == 4, "deform_conv2d: offset must be 4-dimensional, got ", in.offset.dim(), " dimensions");
    require(in.weight.dim() == 4, "deform_conv2d: weight must be 4-dimensional, got ", in.weight.dim(), " dimensions");
    require(!in.mask.defined() || in.mask.dim() == 4, "deform_conv2d: mask must be 4-dimensional");
    check_parameters(p);
    check_dtypes(in);
    const auto& w = in.weight;
    constexpr std::int64_t most = 1 << 15;
    require(w.size(2) <= most && w.size(3) <= most, "deform_conv2d: weight_h: ", w.size(2), " weight_w: ", w.size(3),
            " must be at most ", most);
    const std::int64_t batch = in.x.size(0), channels = in.x.size(1), taps = w.size(2) * w.size(3);
    require(w.size(2) > 0 && w.size(3) > 0, "deform_conv2d: weight_h: ", w.size(2), " weight_w: ", w.size(3),
            " must be greater than 0");
    require(w.size(1) * p.groups == channels, "deform_conv2d: weight.shape[1] * groups = ", w.size(1) * p.groups,
            " does not match the ", channels, " channels of input");
    require(channels > 0 && channels % p.groups == 0 && w.size(0) % p.groups == 0, "deform_conv2d: ", channels,
            " input and ", w.size(0), " output channels must be divisible by groups ", p.groups);
    require(channels % p.offset_groups == 0, "deform_conv2d: ", channels, " input channels must be divisible by ",
            "offset_groups ", p.offset_groups);
    require(in.offset.size(1) == p.offset_groups * 2 * taps, "offset.shape[1] is not valid: got: ", in.offset.size(1),
            " expected: ", p.offset_groups * 2 * taps);
    require(in.offset.size(0) == batch, "invalid batch size of offset: got ", in.offset.size(0), ", expected ", batch);
    std::int64_t out[2];
    for (int i = 0; i < 2; ++i)
        out[i] = (in.x.size(2 + i) + 2 * p.padding[i] - (p.dilation[i] * (w.size(2 + i) - 1) + 1)) / p.stride[i] + 1;
    require(out[0] > 0 && out[1] > 0, "Calculated output size too small - out_h: ", out[0], " out_w: ", out[1]);
    require(in.offset.size(2) == out[0] && in.offset.size(3) == out[1], "offset output dims: (", in.offset.size(2),
            ", ", in.offset.size(3), ") - computed output dims: (", out[0], ", ", out[1], ")");
    if (in.mask.defined()) {
        require(in.mask.size(0) == batch, "invalid batch size of mask: got ", in.mask.size(0), ", expected ", batch);
        require(in.mask.size(1) == p.offset_groups * taps, "mask.shape[1] is not valid: got: ", in.mask.size(1),
                " expected: ", p.offset_groups * taps);
        require(in.mask.size(2) == out[0] && in.mask.size(3) == out[1], "mask output dims: (", in.mask.size(2), ", ",
                in.mask.size(3), ") - computed output dims: (", out[0], ", ", out[1], ")");
    }
    require(!in.bias.defined() || in.bias.shape == Dims{w.size(0)}, "deform_conv2d: bias must have shape [", w.size(0),
            "], got ", in.bias.defined() ? to_string(in.bias.shape) : "");
    return {small(batch), small(channels), small(in.x.size(2)), small(in.x.size(3)), small(w.size(0)), small(out[0]),
            small(out[1]), small(w.size(2)), small(w.size(3)), small(p.stride[0]), small(p.stride[1]),
            small(p.padding[0]), small(p.padding[1]), small(p.dilation[0]), small(p.dilation[1]), small(p.groups),
            small(p.offset_groups), in.mask.defined()};
}

void check_like(const Tensor& gradient, const Tensor& of, const char* name)
{
    if (!gradient.defined())
        return;
    require(of.defined() && gradient.shape == of.shape && gradient.dtype == of.dtype, "deform_conv2d_backward: the ",
            "gradient of ", name, " must have the shape and dtype of ", name);
}

void check_device(const Problem& problem, const Device& device)
{
    require<NotSupported>(problem.inputs.x.dtype != DataType::float64 || device.fp64,
                          "deform_conv2d: this device has no float64: ", device.name);
}

// A tensor like another one for tuning to write.
Tensor scratch_like(Queue& queue, const Tensor& tensor)
{
    return tensor.defined() ? queue.context().empty(tensor.shape, tensor.dtype, queue) : Tensor();
}

}  // namespace

std::string describe(const Problem& problem)
{
    const DeformConv2DInputs& in = problem.inputs;
    const Geometry& g = problem.geometry;
    return detail::concat(problem.backward ? "backward " : "forward ", name_of(in.x.dtype), " x",
                          to_string(in.x.shape), to_string(in.x.strides), " w", to_string(in.weight.shape), " stride=",
                          g.stride_h, ":", g.stride_w, " pad=", g.pad_h, ":", g.pad_w, " dilation=", g.dilation_h, ":",
                          g.dilation_w, " groups=", g.groups, ":", g.offset_groups, g.has_mask ? " mask" : "");
}

}  // namespace deform_conv

using namespace deform_conv;

Dims deform_conv2d_shape(const DeformConv2D& parameters, const DeformConv2DInputs& inputs)
{
    const Geometry g = check(parameters, inputs);
    return {g.batch, g.out_channels, g.out_height, g.out_width};
}

void deform_conv2d(Queue& queue, const DeformConv2D& parameters, const DeformConv2DInputs& inputs, const Tensor& y)
{
    detail::check_operands("deform_conv2d", {{"x", inputs.x}, {"offset", inputs.offset},
                                             {"mask", inputs.mask, detail::optional}, {"weight", inputs.weight},
                                             {"bias", inputs.bias, detail::optional}, {"y", y}});
    const Problem problem{check(parameters, inputs), inputs};
    const Geometry& g = problem.geometry;
    require(y.defined() && y.dtype == inputs.x.dtype &&
                y.shape == Dims{g.batch, g.out_channels, g.out_height, g.out_width},
            "deform_conv2d: the output must have shape ", to_string(deform_conv2d_shape(parameters, inputs)),
            " and the dtype of input");
    check_device(problem, queue.device());
    if (y.numel() == 0)
        return;
    choose("deform_conv", implementations(), problem, queue, [&](const auto& one) {
        one->forward(queue, problem, scratch_like(queue, y));
    })->forward(queue, problem, y);
}

void deform_conv2d_backward(Queue& queue, const DeformConv2D& parameters, const DeformConv2DInputs& inputs,
                            const Tensor& grad_y, const DeformConv2DGradients& gradients)
{
    detail::check_operands("deform_conv2d_backward",
                           {{"x", inputs.x}, {"offset", inputs.offset}, {"mask", inputs.mask, detail::optional},
                            {"weight", inputs.weight}, {"bias", inputs.bias, detail::optional}, {"grad_y", grad_y},
                            {"grad_x", gradients.x, detail::optional},
                            {"grad_offset", gradients.offset, detail::optional},
                            {"grad_mask", gradients.mask, detail::optional},
                            {"grad_weight", gradients.weight, detail::optional},
                            {"grad_bias", gradients.bias, detail::optional}});
    const Problem problem{check(parameters, inputs), inputs, true};
    const Geometry& g = problem.geometry;
    require(grad_y.defined() && grad_y.dtype == inputs.x.dtype
                && grad_y.shape == Dims{g.batch, g.out_channels, g.out_height, g.out_width},
            "deform_conv2d_backward: the gradient must have the shape and dtype of the output");
    check_like(gradients.x, inputs.x, "input");
    check_like(gradients.offset, inputs.offset, "offset");
    check_like(gradients.mask, inputs.mask, "mask");
    check_like(gradients.weight, inputs.weight, "weight");
    require(!gradients.bias.defined() || (gradients.bias.shape == Dims{g.out_channels}
                                          && gradients.bias.dtype == inputs.x.dtype),
            "deform_conv2d_backward: the gradient of bias must have shape [", g.out_channels,
            "] and the dtype of input");
    check_device(problem, queue.device());
    if (grad_y.numel() > 0 && inputs.x.numel() > 0) {
        if (gradients.bias.defined())
            grad_bias(queue, problem, grad_y, gradients.bias);
        choose("deform_conv", implementations(), problem, queue, [&](const auto& one) {
            one->backward(queue, problem, grad_y,
                         {scratch_like(queue, gradients.x), scratch_like(queue, gradients.offset),
                          scratch_like(queue, gradients.mask), scratch_like(queue, gradients.weight), Tensor()});
        })->backward(queue, problem, grad_y, gradients);
        return;
    }
    for (const Tensor* t : {&gradients.x, &gradients.offset, &gradients.mask, &gradients.weight, &gradients.bias})
        if (t->defined())
            fill(queue, *t, 0.);
}

std::vector<std::string> deform_conv2d_implementations(const Device& device, const DeformConv2D& parameters,
                                                       const DeformConv2DInputs& inputs)
{
    const Problem problem{check(parameters, inputs), inputs};
    std::vector<std::string> lines;
    for (const auto& one : implementations()) {
        const Rejection reason = one.rejects(problem, device);
        lines.push_back(reason ? detail::concat(one.name, ": ", *reason) : std::string(one.name));
    }
    return lines;
}

}  // namespace clprim
