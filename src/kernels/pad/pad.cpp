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

// A launch over the second operand, which is the unpadded one of gradients.
void launch(Queue& queue, const char* name, std::array<Tensor, 2> operands, const Geometry& g, PadMode mode,
            bool backward)
{
    const cl_long* sizes = backward ? g.in : g.out;
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const int each = backward || cpu ? 1 : 4;
    std::int64_t largest = std::max(operands[0].numel(), operands[1].numel());
    for (const std::int64_t size : {g.in[0], g.in[1], g.in[2], g.out[0], g.out[1], g.out[2]})
        largest = std::max(largest, size);
    const bool narrow = largest < std::int64_t{1} << 29;   // a place before the first, and one mirrored behind the last
    Kernel& kernel = queue.context()
        .program(cpu ? "kernels/pad/cpu_pad.cl" : "kernels/pad/pad.cl",
                 detail::define("X", operands[0].dtype) + (mode == PadMode::reflect ? " -DREFLECT" : "") +
                     (g.inner > 1 ? " -DCHANNELS_LAST" : "") + (std::max(g.in[0], g.out[0]) > 1 ? " -DPLANES" : "") +
                     (narrow ? " -DINDEX=int" : " -DINDEX=long") +
                     (each > 1 ? " -DEACH=" + std::to_string(each) : ""))
        .kernel(name);
    const auto rows = static_cast<std::size_t>(operands[1].numel() / (sizes[2] * g.inner));
    if (cpu) {
        const std::size_t units = std::max<std::size_t>(queue.device().compute_units, 1),
                          some = std::max<std::size_t>(4096 / static_cast<std::size_t>(sizes[2] * g.inner), 1),
                          rows_each = std::clamp<std::size_t>(rows / (4 * units), 1, some);
        queue.launch(kernel, Range::groups((rows + rows_each - 1) / rows_each, 1), operands[0], operands[1], g,
                     cl_ulong(rows), cl_uint(rows_each));
        return;
    }
    const auto width = static_cast<std::size_t>((sizes[2] + each - 1) / each);
    const Range range = g.inner > 1
        ? detail::plane_range(queue.device(), static_cast<std::size_t>(g.inner), width, rows)
        : detail::plane_range(queue.device(), width, rows, 1);
    queue.launch(kernel, range, operands[0], operands[1], g, cl_ulong(rows));
}

}  // namespace

void pad(Queue& queue, const Tensor& x, const Tensor& y, const Padding& padding)
{
    detail::check_operands("pad", {{"x", x}, {"y", y}});
    const Geometry g = geometry_of(x, y, padding);
    if (y.numel() != 0)
        launch(queue, "pad", {x, y}, g, padding.mode, false);
}

void pad_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Padding& padding)
{
    detail::check_operands("pad_backward", {{"grad_output", grad_output}, {"grad_input", grad_input}});
    const Geometry g = geometry_of(grad_input, grad_output, padding);
    require(is_floating_point(grad_input.dtype) || is_complex(grad_input.dtype),
            "pad_backward: expected floating-point or complex tensors, got ", name_of(grad_input.dtype));
    if (grad_input.numel() != 0)
        launch(queue, "pad_backward", {grad_output, grad_input}, g, padding.mode, true);
}

}  // namespace clprim
