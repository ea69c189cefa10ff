#include <clprim/grid_sample.hpp>

#include <clprim/copy.hpp>

#include "kernels/bins/bins.hpp"
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

Kernel& kernel(Queue& queue, const char* file, const char* name, const Tensor& x, const GridSampling& how)
{
    constexpr const char* modes[] = {"bilinear", "nearest", "bicubic"};
    constexpr const char* paddings[] = {"zeros", "border", "reflection"};
    const std::string options = detail::concat(
        detail::define("X", x.dtype), " -DACC=", opencl_compute_type(detail::accumulate_type(x.dtype)), " -DAXES=",
        x.dim() - 2, " -DMODE=", modes[int(how.mode)], " -DPADDING=", paddings[int(how.padding)]);
    return queue.context().program(detail::concat("kernels/grid_sample/", file), options).kernel(name);
}

using detail::divide_up;

constexpr std::int64_t cpu_block = 64;   // BLOCK of cpu_taps.cl

Range cpu_range(std::int64_t items, std::int64_t images)
{
    return Range::groups({std::size_t(items), std::size_t(images), 1}, {1, 1, 1});
}

// Points of a work-item: whole blocks, as many as leave each core several items.
std::int64_t span_of(const Device& device, std::int64_t points, std::int64_t images)
{
    const std::int64_t blocks = divide_up(points, cpu_block) * images, cores = std::max(1u, device.compute_units);
    return cpu_block * std::clamp<std::int64_t>(blocks / (16 * cores), 1, 64);
}

// Images as pixels of channels, some at a time, so that what was turned is still in a cache when it is sampled.
void sample_channels(Queue& queue, const Tensor& x, const Tensor& grid, const Tensor& y, const Geometry& geometry,
                     const GridSampling& how)
{
    const std::int64_t volume = x.size(2) * x.size(3), stride = (x.size(1) + 15) / 16 * 16;
    const std::int64_t points = grid.size(1) * grid.size(2);
    const DataType type = detail::accumulate_type(x.dtype);
    const std::int64_t bytes = (volume + 1) * stride * std::int64_t(size_of(type));
    const std::int64_t images = std::clamp<std::int64_t>((2 << 20) / bytes, 1, x.size(0));
    const Tensor pixels = queue.context().empty({images, volume + 1, stride}, type, queue);
    for (std::int64_t first = 0; first < x.size(0); first += images) {
        const std::int64_t end = std::min(first + images, x.size(0)), count = end - first;
        queue.launch(kernel(queue, "cpu_channels.cl", "turn_planes", x, how),
                     cpu_range(divide_up(volume, cpu_block), count), x.slice(0, first, end), pixels,
                     geometry.channels, cl_uint(volume), cl_uint(stride));
        const std::int64_t span = span_of(queue.device(), points, count);
        queue.launch(kernel(queue, "cpu_channels.cl", "grid_sample", x, how), cpu_range(divide_up(points, span), count),
                     pixels, grid.slice(0, first, end), y.slice(0, first, end), geometry, cl_uint(span),
                     cl_uint(stride));
    }
}

// Whether turning the image pays: by the channels that share a tap's weights, and by the points that share the image.
bool by_channels(const Tensor& x, std::int64_t points, SampleMode mode)
{
    const std::int64_t volume = x.size(2) * x.size(3);
    return mode == SampleMode::bilinear ? x.size(1) >= 12 && points >= volume
                                        : mode == SampleMode::bicubic && x.size(1) >= 4 && points * 4 >= volume;
}

// By the kernels for CPUs, where they apply.
bool sampled_on_cpu(Queue& queue, const Tensor& x, const Tensor& grid, const Tensor& y, const Geometry& geometry,
                    const GridSampling& how)
{
    if (queue.device().kind != DeviceKind::cpu || x.dim() != 4 || x.size(3) < 2)
        return false;
    const std::int64_t points = grid.size(1) * grid.size(2);
    if (by_channels(x, points, how.mode)) {
        sample_channels(queue, x, grid, y, geometry, how);
        return true;
    }
    const std::int64_t span = span_of(queue.device(), points, x.size(0));
    queue.launch(kernel(queue, "cpu_points.cl", "grid_sample", x, how), cpu_range(divide_up(points, span), x.size(0)),
                 x, grid, y, geometry, cl_uint(span));
    return true;
}

// Elements of a plane that a point touches.
std::int64_t touched(const GridSampleBackward& p)
{
    const std::int64_t taps = p.how.mode == SampleMode::bicubic ? 4 : p.how.mode == SampleMode::bilinear ? 2 : 1;
    return p.x.dim() == 5 ? taps * taps * taps : taps * taps;
}

// The gradient of the input on GPUs, of images [first, end).
void gather_images(Queue& queue, const GridSampleBackward& p, const Geometry& geometry, std::int64_t first,
                   std::int64_t end)
{
    const Tensor grid = p.grid.slice(0, first, end), sums = p.grad_input.slice(0, first, end);
    const std::size_t axes = p.x.dim() - 2;
    const std::int64_t images = end - first, channels = p.x.size(1), volume = p.x.numel() / (p.x.size(0) * channels),
                       points = grid.numel() / std::int64_t(axes), each = touched(p);
    constexpr std::int64_t beside = 8;   // BESIDE of grid_sample.cl
    const Tensor numbers = queue.context().empty({points * each}, DataType::int32, queue),
                 weights = queue.context().empty({points * each}, p.grad_input.dtype, queue);
    queue.launch(kernel(queue, "grid_sample.cl", "grid_sample_touched", p.x, p.how), Range::linear(points, 64), grid,
                 numbers, weights, geometry, cl_ulong(points));
    const detail::Bins bins = detail::sort_into_bins(queue, numbers, images * volume);
    queue.launch(kernel(queue, "grid_sample.cl", "grid_sample_gather", p.x, p.how),
                 Range::groups({std::size_t(divide_up(volume, 64)), std::size_t(divide_up(channels, beside)),
                                std::size_t(images)}, {64, 1, 1}),
                 p.grad_output.slice(0, first, end), bins.begins, bins.list, weights, sums, geometry);
}

void grad_input(Queue& queue, const GridSampleBackward& p, const Geometry& geometry)
{
    const std::int64_t images = p.x.size(0), planes = images * p.x.size(1);
    if (queue.device().kind == DeviceKind::cpu && p.x.dim() == 4) {
        // As many planes together as leave each core several items: they share what is found for a point.
        const std::int64_t channels = p.x.size(1), items = 4 * std::max(1u, queue.device().compute_units),
                           shares = std::min(channels, divide_up(items, images)),
                           share = divide_up(channels, shares);
        queue.launch(kernel(queue, "cpu_scatter.cl", "grid_sample_scatter", p.x, p.how),
                     cpu_range(divide_up(channels, share), images), p.grad_output, p.grid, p.grad_input, geometry,
                     cl_uint(share));
        return;
    }
    if (queue.device().kind == DeviceKind::cpu) {
        queue.launch(kernel(queue, "grid_sample.cl", "grid_sample_grad_input", p.x, p.how), Range::linear(planes, 1),
                     p.grad_output, p.grid, p.grad_input, geometry, cl_ulong(planes));
        return;
    }
    if (p.grid.numel() == 0)
        return fill(queue, p.grad_input, 0.);
    // Bins and what lies in them are numbered in 31 bits.
    const std::int64_t points = p.grid.numel() / p.grid.shape.back() / images;
    const std::int64_t largest = std::max(p.x.numel() / planes, points * touched(p));
    const std::int64_t together = std::clamp<std::int64_t>(((std::int64_t{1} << 31) - 2) / largest, 1, images);
    for (std::int64_t first = 0; first < images; first += together)
        gather_images(queue, p, geometry, first, std::min(first + together, images));
}

}  // namespace

void grid_sample(Queue& queue, const Tensor& x, const Tensor& grid, const Tensor& y, const GridSampling& how)
{
    detail::check_operands("grid_sample", {{"x", x}, {"grid", grid}, {"y", y}});
    if (y.numel() == 0)
        return;
    const Geometry geometry = geometry_of(x, grid, y, how);
    if (sampled_on_cpu(queue, x, grid, y, geometry, how))
        return;
    const std::int64_t items = y.numel() / x.size(1);
    queue.launch(kernel(queue, "grid_sample.cl", "grid_sample", x, how), Range::linear(items, 64), x, grid, y, geometry,
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
        grad_input(queue, p, geometry);
    }
    if (p.grad_grid.defined() && p.grid.numel() != 0) {
        require(p.grad_grid.shape == p.grid.shape && p.grad_grid.is_contiguous() && p.grad_grid.dtype == p.grid.dtype,
                "grid_sample_backward: grad_grid must be contiguous and like the grid");
        const std::int64_t items = p.grid.numel() / p.grid.shape.back();
        queue.launch(kernel(queue, "grid_sample.cl", "grid_sample_grad_grid", p.x, p.how), Range::linear(items, 64),
                     p.grad_output, p.x, p.grid, p.grad_grid, geometry, cl_ulong(items));
    }
}

}  // namespace clprim
