// Sampling at the points of a grid.
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <clprim/grid_sample.hpp>
#include <torch/library.h>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

void check(const at::Tensor& input, const at::Tensor& grid, int64_t mode)
{
    at::native::check_grid_sampler_common(input, grid);
    if (grid.size(-1) == 2)
        at::native::check_grid_sampler_2d(input, grid);
    else
        at::native::check_grid_sampler_3d(input, grid, mode);
    TORCH_CHECK(input.scalar_type() == grid.scalar_type(), "expected scalar type ", c10::toString(input.scalar_type()),
                " but found ", c10::toString(grid.scalar_type()));
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()), "\"grid_sampler\" not implemented for '",
                                c10::toString(input.scalar_type()), "'");
}

std::vector<int64_t> sampled_size(const at::Tensor& input, const at::Tensor& grid)
{
    std::vector<int64_t> size{input.size(0), input.size(1)};
    for (int64_t i = 1; i < grid.dim() - 1; ++i)
        size.push_back(grid.size(i));
    return size;
}

clprim::GridSampling sampling(int64_t mode, int64_t padding, bool align_corners)
{
    return {static_cast<clprim::SampleMode>(mode), static_cast<clprim::SamplePadding>(padding), align_corners};
}

at::Tensor grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding,
                        bool align_corners)
{
    check(input, grid, mode);
    const c10::OptionalDeviceGuard guard(input.device());
    const at::Tensor y = torch_ocl::empty(sampled_size(input, grid), input.scalar_type(), input.device());
    clprim::grid_sample(current_queue(input), view(input.contiguous()), view(grid.contiguous()), view(y),
                        sampling(mode, padding, align_corners));
    return y;
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                         const at::Tensor& grid, int64_t mode, int64_t padding,
                                                         bool align_corners, std::array<bool, 2> output_mask)
{
    check(input, grid, mode);
    const std::vector<int64_t> size = sampled_size(input, grid);
    TORCH_CHECK_VALUE(grad_output.sizes() == size, "grid_sampler(): expected grad_output to have sizes ", size,
                      " but got grad_output with sizes ", grad_output.sizes());
    const c10::OptionalDeviceGuard guard(input.device());
    const at::Tensor dy = grad_output.contiguous(), x = input.contiguous(), points = grid.contiguous();
    const bool wide = x.scalar_type() == at::kDouble;
    at::Tensor grad_input, grad_grid;
    if (output_mask[0])
        grad_input = torch_ocl::empty(x.sizes(), wide ? at::kDouble : at::kFloat, x.device());
    if (output_mask[1])
        grad_grid = x.numel() == 0 ? at::zeros_like(points) : torch_ocl::empty(points.sizes(), points.scalar_type(),
                                                                               points.device());
    if (grad_output.numel() == 0 && output_mask[0])
        grad_input.zero_();
    else
        clprim::grid_sample_backward(current_queue(x),
                                     {view(dy), view(x), view(points),
                                      grad_input.defined() ? view(grad_input) : clprim::Tensor(),
                                      grad_grid.defined() ? view(grad_grid) : clprim::Tensor(),
                                      sampling(mode, padding, align_corners)});
    if (output_mask[0])
        grad_input = grad_input.to(x.scalar_type());
    return {grad_input, grad_grid};
}

std::tuple<at::Tensor, at::Tensor> both_gradients(const at::Tensor& grad_output, const at::Tensor& input,
                                                  const at::Tensor& grid, int64_t mode, int64_t padding,
                                                  bool align_corners)
{
    return grid_sampler_backward(grad_output, input, grid, mode, padding, align_corners, {true, true});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("grid_sampler_2d", grid_sampler);
    // PyTorch's own, for every device, reads through the pointers of its tensors.
    m.impl("_grid_sampler_2d_cpu_fallback", grid_sampler);
    m.impl("_grid_sampler_2d_cpu_fallback_backward", both_gradients);
    m.impl("grid_sampler_3d", grid_sampler);
    m.impl("grid_sampler_2d_backward", grid_sampler_backward);
    m.impl("grid_sampler_3d_backward", grid_sampler_backward);
}

}  // namespace
}  // namespace torch_ocl
