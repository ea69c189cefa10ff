#include <clprim/grid_sample.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// sample_t of grid_sample.cl
struct Geometry {
    cl_uint channels;
    cl_int in[3], out[3];
    cl_int align_corners;
};

Geometry geometry_of(const Tensor& x, const Tensor& grid, const Tensor& y, const GridSampling& how)
{
    const std::size_t axes = x.dim() - 2;
    require((axes == 2 || axes == 3) && grid.dim() == x.dim() && y.dim() == x.dim() &&
                grid.size(0) == x.size(0) && grid.shape.back() == std::int64_t(axes) && y.size(0) == x.size(0) &&
                y.size(1) == x.size(1),
            "grid_sample: shapes do not fit: input ", to_string(x.shape), ", grid ", to_string(grid.shape),
            ", output ", to_string(y.shape));
    require(x.is_contiguous() && grid.is_contiguous() && y.is_contiguous() && x.dtype == grid.dtype &&
                x.dtype == y.dtype && is_floating_point(x.dtype),
            "grid_sample: tensors must be contiguous and of one floating-point dtype");
    require(axes == 2 || how.mode != SampleMode::bicubic, "grid_sample: bicubic is for two axes only");
    Geometry g{cl_uint(x.size(1)), {1, 1, 1}, {1, 1, 1}, how.align_corners};
    std::int64_t volume = 1, points = 1;
    for (std::size_t i = 0; i < axes; ++i) {
        require(grid.size(1 + i) == y.size(2 + i), "grid_sample: grid ", to_string(grid.shape),
                " does not fit output ", to_string(y.shape));
        g.in[3 - axes + i] = x.size(2 + i);
        g.out[3 - axes + i] = y.size(2 + i);
        volume *= x.size(2 + i);
        points *= y.size(2 + i);
    }
    require(volume > 0 && volume < (std::int64_t(1) << 31) && points < (std::int64_t(1) << 31),
            "grid_sample: planes must have between 1 and 2^31 - 1 elements");
    return g;
}

Kernel& kernel(Queue& queue, const char* name, const Tensor& x, const GridSampling& how)
{
    constexpr const char* modes[] = {"bilinear", "nearest", "bicubic"};
    constexpr const char* paddings[] = {"zeros", "border", "reflection"};
    const std::string options = detail::concat(
        detail::define("X", x.dtype), " -DACC=", opencl_compute_type(detail::accumulate_type(x.dtype)), " -DAXES=",
        x.dim() - 2, " -DMODE=", modes[int(how.mode)], " -DPADDING=", paddings[int(how.padding)]);
    return queue.context().program("kernels/grid_sample/grid_sample.cl", options).kernel(name);
}

}  // namespace

void grid_sample(Queue& queue, const Tensor& x, const Tensor& grid, const Tensor& y, const GridSampling& how)
{
    detail::check_operands("grid_sample", {{"x", x}, {"grid", grid}, {"y", y}});
    if (y.numel() == 0)
        return;
    const Geometry geometry = geometry_of(x, grid, y, how);
    const std::int64_t items = y.numel() / x.size(1);
    queue.launch(kernel(queue, "grid_sample", x, how), Range::linear(items, 64), x, grid, y, geometry,
                 cl_ulong(items));
}

void grid_sample_backward(Queue& queue, const GridSampleBackward& p)
{
    detail::check_operands("grid_sample_backward",
                           {{"grad_output", p.grad_output}, {"x", p.x}, {"grid", p.grid},
                            {"grad_input", p.grad_input, detail::optional},
                            {"grad_grid", p.grad_grid, detail::optional}});
    if (p.x.numel() == 0)
        return;
    const Geometry geometry = geometry_of(p.x, p.grid, p.grad_output, p.how);
    if (p.grad_input.defined()) {
        require(p.grad_input.shape == p.x.shape && p.grad_input.is_contiguous() &&
                    p.grad_input.dtype == detail::accumulate_type(p.x.dtype),
                "grid_sample_backward: grad_input must be contiguous, like the input, in the type of sums");
        const std::int64_t planes = p.x.size(0) * p.x.size(1);
        queue.launch(kernel(queue, "grid_sample_grad_input", p.x, p.how), Range::linear(planes, 1), p.grad_output,
                     p.grid, p.grad_input, geometry, cl_ulong(planes));
    }
    if (p.grad_grid.defined() && p.grid.numel() != 0) {
        require(p.grad_grid.shape == p.grid.shape && p.grad_grid.is_contiguous() && p.grad_grid.dtype == p.grid.dtype,
                "grid_sample_backward: grad_grid must be contiguous and like the grid");
        const std::int64_t items = p.grid.numel() / p.grid.shape.back();
        queue.launch(kernel(queue, "grid_sample_grad_grid", p.x, p.how), Range::linear(items, 64), p.grad_output, p.x,
                     p.grid, p.grad_grid, geometry, cl_ulong(items));
    }
}

}  // namespace clprim
