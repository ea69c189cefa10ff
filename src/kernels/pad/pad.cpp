#include <clprim/pad.hpp>

#include <algorithm>
#include <array>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// pad_t of pad.cl
struct Geometry {
    cl_long in[3]{1, 1, 1}, out[3]{1, 1, 1}, before[3]{0, 0, 0}, inner = 1;
};

Geometry geometry_of(const Tensor& x, const Tensor& y, const Padding& padding)
{
    const std::size_t axes = static_cast<std::size_t>(padding.axes);
    require(axes >= 1 && axes <= 3 && x.dim() == axes + 2 && y.dim() == axes + 2 && x.dtype == y.dtype &&
                x.size(0) == y.size(0) && x.size(1) == y.size(1),
            "pad: expected tensors [N, C, spatial...] of one dtype, got ", to_string(x.shape), " and ",
            to_string(y.shape));
    Geometry g;
    if (!(x.is_contiguous() && y.is_contiguous())) {
        require(x.is_channels_last() && y.is_channels_last(),
                "pad: both tensors must be row-major or both channels_last");
        g.inner = x.size(1);
    }
    for (std::size_t i = 0; i < axes; ++i) {
        const std::size_t at = 3 - axes + i;
        g.in[at] = x.size(2 + i);
        g.out[at] = y.size(2 + i);
        g.before[at] = padding.before[i];
        const std::int64_t behind = g.out[at] - g.in[at] - g.before[at],
                           most = std::max<std::int64_t>(g.before[at], behind);
        require(g.in[at] > 0 || g.out[at] == 0, "pad: axis ", 2 + i, " has no elements to pad with");
        require(padding.mode != PadMode::reflect || most < g.in[at], "pad: axis ", 2 + i, " of ", g.in[at],
                " elements cannot be mirrored into ", most, " positions");
    }
    return g;
}

Kernel& kernel(Queue& queue, const char* name, DataType dtype, const Geometry& g, std::int64_t rows, PadMode mode)
{
    const std::int64_t source_rows = rows / std::max<cl_long>(g.out[0] * g.out[1], 1) * g.in[0] * g.in[1];
    std::int64_t largest = std::max(rows, source_rows);
    for (const std::int64_t size : {g.in[0], g.in[1], g.in[2] * g.inner, g.out[0], g.out[1], g.out[2] * g.inner})
        largest = std::max(largest, size);
    const bool narrow = largest < std::int64_t{1} << 29;   // a place before the first, and one mirrored behind the last
    return queue.context()
        .program("kernels/pad/pad.cl", detail::define("X", dtype) + (mode == PadMode::reflect ? " -DREFLECT" : "") +
                                           (g.inner > 1 ? " -DCHANNELS_LAST" : "") +
                                           (std::max(g.in[0], g.out[0]) > 1 ? " -DPLANES" : "") +
                                           (narrow ? " -DINDEX=int" : " -DINDEX=long"))
        .kernel(name);
}

}  // namespace

void pad(Queue& queue, const Tensor& x, const Tensor& y, const Padding& padding)
{
    detail::check_operands("pad", {{"x", x}, {"y", y}});
    const Geometry g = geometry_of(x, y, padding);
    if (y.numel() == 0)
        return;
    const std::int64_t rows = y.numel() / (g.out[2] * g.inner);
    const bool last = g.inner > 1;
    const auto sizes = std::array{static_cast<std::size_t>(last ? g.inner : g.out[2]),
                                  static_cast<std::size_t>(last ? g.out[2] : rows)};
    queue.launch(kernel(queue, "pad", x.dtype, g, rows, padding.mode),
                 detail::plane_range(queue.device(), sizes[0], sizes[1], static_cast<std::size_t>(last ? rows : 1)), x,
                 y, g, cl_ulong(rows));
}

void pad_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Padding& padding)
{
    detail::check_operands("pad_backward", {{"grad_output", grad_output}, {"grad_input", grad_input}});
    const Geometry g = geometry_of(grad_input, grad_output, padding);
    require(is_floating_point(grad_input.dtype) || is_complex(grad_input.dtype),
            "pad_backward: expected floating-point or complex tensors, got ", name_of(grad_input.dtype));
    if (grad_input.numel() != 0)
        queue.launch(kernel(queue, "pad_backward", grad_input.dtype, g, 0, padding.mode),
                     Range::linear(grad_input.numel(), 64), grad_output, grad_input, g, cl_ulong(grad_input.numel()));
}

}  // namespace clprim
