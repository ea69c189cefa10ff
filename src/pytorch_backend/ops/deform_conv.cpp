// torchvision::deform_conv2d. Its schemas, meta functions and autograd come with torchvision; here are the kernels of
// the device, under the names that torchvision calls, and its autocast rule (computed in float32).
#include <clprim/deform_conv.hpp>
#include <torch/library.h>

#include "ops/vision.hpp"

namespace torch_ocl {
namespace {

using vision::check_same;

struct Arguments {
    clprim::DeformConv2D parameters;
    clprim::DeformConv2DInputs inputs;
};

Arguments arguments(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const at::Tensor& mask,
                    const at::Tensor& bias, std::array<std::int64_t, 8> p, bool use_mask)
{
    TORCH_CHECK(input.dim() == 4, "deform_conv2d: input must be 4-dimensional");
    TORCH_CHECK(offset.dim() == 4, "deform_conv2d: offset must be 4-dimensional");
    TORCH_CHECK(!use_mask || mask.dim() == 4, "deform_conv2d: mask must be 4-dimensional");
    TORCH_CHECK(weight.dim() == 4, "deform_conv2d: weight must be 4-dimensional");
    check_same("deform_conv2d", {input, "input"}, {{weight, "weight"}, {offset, "offset"}, {bias, "bias"}});
    if (use_mask)
        check_same("deform_conv2d", {input, "input"}, {{mask, "mask"}});
    return {{{p[0], p[1]}, {p[2], p[3]}, {p[4], p[5]}, p[6], p[7]},
            {view(input), view(offset), use_mask ? view(mask) : clprim::Tensor(), view(weight), view(bias)}};
}

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h, std::int64_t stride_w,
                         std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w,
                         std::int64_t groups, std::int64_t offset_groups, bool use_mask)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const Arguments a =
        arguments(input, weight, offset, mask, bias,
                  {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups}, use_mask);
    const clprim::Dims shape = clprim::deform_conv2d_shape(a.parameters, a.inputs);
    const at::Tensor y = vision::result({shape.data(), shape.size()}, input);
    clprim::deform_conv2d(current_queue(input), a.parameters, a.inputs, view(y));
    return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> deform_conv2d_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
    const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
    std::int64_t pad_w, std::int64_t dilation_h, std::int64_t dilation_w, std::int64_t groups,
    std::int64_t offset_groups, bool use_mask)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const Arguments a =
        arguments(input, weight, offset, mask, bias,
                  {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups}, use_mask);
    check_same("deform_conv2d", {input, "input"}, {{grad, "grad"}});
    const at::Tensor grad_input = vision::result_like(input), grad_weight = at::empty_like(weight),
                     grad_offset = at::empty_like(offset), grad_bias = at::empty_like(bias),
                     grad_mask = at::empty_like(mask);
    if (!use_mask)
        grad_mask.zero_();
    clprim::deform_conv2d_backward(current_queue(input), a.parameters, a.inputs, view(grad),
                                   {view(grad_input), view(grad_offset), use_mask ? view(grad_mask) : clprim::Tensor(),
                                    view(grad_weight), view(grad_bias)});
    return {grad_input, grad_weight, grad_offset, grad_mask, grad_bias};
}

at::Tensor deform_conv2d_autocast(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                                  const at::Tensor& mask, const at::Tensor& bias, std::int64_t stride_h,
                                  std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w,
                                  std::int64_t dilation_h, std::int64_t dilation_w, std::int64_t groups,
                                  std::int64_t offset_groups, bool use_mask)
{
    const auto guard = vision::no_autocast();
    static const auto op =
        vision::find_op<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&, c10::SymInt, c10::SymInt, c10::SymInt, c10::SymInt, c10::SymInt,
                                   c10::SymInt, c10::SymInt, c10::SymInt, bool)>("torchvision::deform_conv2d");
    using vision::to_float;
    return op
        .call(to_float(input), to_float(weight), to_float(offset), to_float(mask), to_float(bias), stride_h, stride_w,
              pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask)
        .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m)
{
    m.impl("deform_conv2d", deform_conv2d);
    m.impl("_deform_conv2d_backward", deform_conv2d_backward);
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m)
{
    m.impl("deform_conv2d", deform_conv2d_autocast);
}

}  // namespace
}  // namespace torch_ocl
