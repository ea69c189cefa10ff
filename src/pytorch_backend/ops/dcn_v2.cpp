// The raw operators of DCNv2, with its names and its order of arguments, as torch.ops.torch_ocl.*. The modules,
// autograd and the CPU implementations are in python/torch_ocl/dcn_v2.py.
#include <clprim/deform_conv.hpp>
#include <clprim/psroi_pool.hpp>
#include <torch/library.h>

#include "ops/vision.hpp"

namespace torch_ocl {
namespace {

using at::Tensor;
using vision::check_same;

struct Call {
    clprim::DeformConv2D parameters;
    clprim::DeformConv2DInputs inputs;
};

// p: kernel, stride, padding, dilation (h and w each), deformable_group.
Call call_of(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& offset, const Tensor& mask,
             std::array<std::int64_t, 9> p)
{
    check_same("dcn_v2", {input, "input"}, {{weight, "weight"}, {bias, "bias"}, {offset, "offset"}, {mask, "mask"}});
    TORCH_CHECK(weight.dim() == 4 && weight.size(2) == p[0] && weight.size(3) == p[1],
                "Input shape and kernel shape wont match: (", p[0], " x ", p[1], " vs ", weight.sizes(), ").");
    return {{{p[2], p[3]}, {p[4], p[5]}, {p[6], p[7]}, 1, p[8]},
            {view(input), view(offset), view(mask), view(weight), view(bias)}};
}

Tensor dcn_v2_forward(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& offset,
                      const Tensor& mask, std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride_h,
                      std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h,
                      std::int64_t dilation_w, std::int64_t deformable_group)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const Call call = call_of(input, weight, bias, offset, mask, {kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w,
                                                                  dilation_h, dilation_w, deformable_group});
    const clprim::Dims shape = clprim::deform_conv2d_shape(call.parameters, call.inputs);
    const Tensor y = vision::result({shape.data(), shape.size()}, input);
    clprim::deform_conv2d(current_queue(input), call.parameters, call.inputs, view(y));
    return y;
}

std::vector<Tensor> dcn_v2_backward(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& offset,
                                    const Tensor& mask, const Tensor& grad_output, std::int64_t kernel_h,
                                    std::int64_t kernel_w, std::int64_t stride_h, std::int64_t stride_w,
                                    std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h,
                                    std::int64_t dilation_w, std::int64_t deformable_group)
{
    const c10::OptionalDeviceGuard guard(input.device());
    const Call call = call_of(input, weight, bias, offset, mask, {kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w,
                                                                  dilation_h, dilation_w, deformable_group});
    check_same("dcn_v2", {input, "input"}, {{grad_output, "grad_output"}});
    const Tensor grad_input = vision::result_like(input), grad_offset = at::empty_like(offset),
                 grad_mask = at::empty_like(mask), grad_weight = at::empty_like(weight),
                 grad_bias = at::empty_like(bias);
    clprim::deform_conv2d_backward(
        current_queue(input), call.parameters, call.inputs, view(grad_output),
        {view(grad_input), view(grad_offset), view(grad_mask), view(grad_weight), view(grad_bias)});
    return {grad_input, grad_offset, grad_mask, grad_weight, grad_bias};
}

clprim::DeformPSRoiPooling pooling_of(bool no_trans, double spatial_scale, std::array<std::int64_t, 5> p,
                                      double trans_std)
{
    return {no_trans, spatial_scale, p[0], p[1], p[2], p[3], p[4], trans_std};
}

std::tuple<Tensor, Tensor> dcn_v2_psroi_pooling_forward(const Tensor& input, const Tensor& bbox, const Tensor& trans,
                                                        bool no_trans, double spatial_scale, std::int64_t output_dim,
                                                        std::int64_t group_size, std::int64_t pooled_size,
                                                        std::int64_t part_size, std::int64_t sample_per_part,
                                                        double trans_std)
{
    check_same("dcn_v2_psroi_pooling", {input, "input"}, {{bbox, "bbox"}});
    if (!no_trans)
        check_same("dcn_v2_psroi_pooling", {input, "input"}, {{trans, "trans"}});
    const c10::OptionalDeviceGuard guard(input.device());
    const auto p = pooling_of(no_trans, spatial_scale,
                              {output_dim, group_size, pooled_size, part_size, sample_per_part}, trans_std);
    const Tensor boxes = bbox.contiguous(), shifts = no_trans ? Tensor() : trans.contiguous();
    const clprim::Tensor t = no_trans ? clprim::Tensor() : view(shifts);
    const clprim::Dims shape = clprim::deform_psroi_pooling_shape(p, view(input), view(boxes), t);
    const at::IntArrayRef sizes{shape.data(), shape.size()};
    const Tensor y = empty(sizes, input.scalar_type(), input.device()),
                 count = empty(sizes, input.scalar_type(), input.device());
    clprim::deform_psroi_pooling(current_queue(input), p, view(input), view(boxes), t, view(y), view(count));
    return {y, count};
}

std::tuple<Tensor, Tensor> dcn_v2_psroi_pooling_backward(const Tensor& out_grad, const Tensor& input,
                                                         const Tensor& bbox, const Tensor& trans,
                                                         const Tensor& top_count, bool no_trans, double spatial_scale,
                                                         std::int64_t output_dim, std::int64_t group_size,
                                                         std::int64_t pooled_size, std::int64_t part_size,
                                                         std::int64_t sample_per_part, double trans_std)
{
    check_same("dcn_v2_psroi_pooling", {input, "input"},
               {{out_grad, "out_grad"}, {bbox, "bbox"}, {top_count, "top_count"}});
    const c10::OptionalDeviceGuard guard(input.device());
    const auto p = pooling_of(no_trans, spatial_scale,
                              {output_dim, group_size, pooled_size, part_size, sample_per_part}, trans_std);
    const Tensor boxes = bbox.contiguous(), shifts = no_trans ? Tensor() : trans.contiguous();
    const Tensor grad = out_grad.contiguous(), count = top_count.contiguous();
    const Tensor grad_input = vision::result_like(input),
                 grad_trans = at::empty_like(trans, at::MemoryFormat::Contiguous);
    clprim::deform_psroi_pooling_backward(current_queue(input), p, view(grad), view(input), view(boxes),
                                          no_trans ? clprim::Tensor() : view(shifts), view(count), view(grad_input),
                                          no_trans ? clprim::Tensor() : view(grad_trans));
    if (no_trans && grad_trans.numel() > 0)
        grad_trans.zero_();
    return {grad_input, grad_trans};
}

Tensor dcn_v2_forward_autocast(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& offset,
                               const Tensor& mask, std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride_h,
                               std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w, std::int64_t dilation_h,
                               std::int64_t dilation_w, std::int64_t deformable_group)
{
    const auto guard = vision::no_autocast();
    static const auto op = vision::find_op<decltype(dcn_v2_forward)>("torch_ocl::dcn_v2_forward");
    using vision::to_float;
    return op
        .call(to_float(input), to_float(weight), to_float(bias), to_float(offset), to_float(mask), kernel_h, kernel_w,
              stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, deformable_group)
        .to(input.scalar_type());
}

std::tuple<Tensor, Tensor> dcn_v2_psroi_pooling_forward_autocast(const Tensor& input, const Tensor& bbox,
                                                                 const Tensor& trans, bool no_trans,
                                                                 double spatial_scale, std::int64_t output_dim,
                                                                 std::int64_t group_size, std::int64_t pooled_size,
                                                                 std::int64_t part_size, std::int64_t sample_per_part,
                                                                 double trans_std)
{
    const auto guard = vision::no_autocast();
    static const auto op =
        vision::find_op<decltype(dcn_v2_psroi_pooling_forward)>("torch_ocl::dcn_v2_psroi_pooling_forward");
    using vision::to_float;
    const auto [y, count] = op.call(to_float(input), to_float(bbox), to_float(trans), no_trans, spatial_scale,
                                    output_dim, group_size, pooled_size, part_size, sample_per_part, trans_std);
    return {y.to(input.scalar_type()), count};
}

TORCH_LIBRARY_FRAGMENT(torch_ocl, m)
{
    m.def("dcn_v2_forward(Tensor input, Tensor weight, Tensor bias, Tensor offset, Tensor mask, int kernel_h, "
          "int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, "
          "int deformable_group) -> Tensor");
    m.def("dcn_v2_backward(Tensor input, Tensor weight, Tensor bias, Tensor offset, Tensor mask, Tensor grad_output, "
          "int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, "
          "int dilation_w, int deformable_group) -> Tensor[]");
    m.def("dcn_v2_psroi_pooling_forward(Tensor input, Tensor bbox, Tensor trans, bool no_trans, float spatial_scale, "
          "int output_dim, int group_size, int pooled_size, int part_size, int sample_per_part, float trans_std) "
          "-> (Tensor, Tensor)");
    m.def("dcn_v2_psroi_pooling_backward(Tensor out_grad, Tensor input, Tensor bbox, Tensor trans, Tensor top_count, "
          "bool no_trans, float spatial_scale, int output_dim, int group_size, int pooled_size, int part_size, "
          "int sample_per_part, float trans_std) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m)
{
    m.impl("dcn_v2_forward", dcn_v2_forward);
    m.impl("dcn_v2_backward", dcn_v2_backward);
    m.impl("dcn_v2_psroi_pooling_forward", dcn_v2_psroi_pooling_forward);
    m.impl("dcn_v2_psroi_pooling_backward", dcn_v2_psroi_pooling_backward);
}

TORCH_LIBRARY_IMPL(torch_ocl, AutocastPrivateUse1, m)
{
    m.impl("dcn_v2_forward", dcn_v2_forward_autocast);
    m.impl("dcn_v2_psroi_pooling_forward", dcn_v2_psroi_pooling_forward_autocast);
}

}  // namespace
}  // namespace torch_ocl
