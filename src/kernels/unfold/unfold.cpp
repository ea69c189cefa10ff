#include <clprim/unfold.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// unfold_t of unfold.cl
struct Geometry {
    cl_int channels, in[2], out[2], extent[2], stride[2], padding[2], dilation[2];
};

Geometry geometry_of(const Tensor& x, const Tensor& columns, const Blocks& b)
{
    require(x.dim() == 4 && columns.dim() == 3 && x.is_contiguous() && columns.is_contiguous() &&
                x.dtype == columns.dtype,
            "unfold: contiguous pictures [N, C, H, W] and columns [N, C kh kw, L] of one dtype expected, got ",
            to_string(x.shape), " and ", to_string(columns.shape));
    Geometry g{};
    constexpr std::int64_t most = std::numeric_limits<cl_int>::max();
    require(x.size(2) * x.size(3) <= most && columns.size(2) <= most && x.size(1) <= most,
            "unfold: pictures of 2^31 pixels or more are not supported, got ", to_string(x.shape));
    g.channels = x.size(1);
    for (int i = 0; i < 2; ++i) {
        require(b.kernel[i] > 0 && b.stride[i] > 0 && b.dilation[i] > 0,
                "unfold: kernel, stride and dilation must be positive");
        for (const std::int64_t v : {b.kernel[i], b.stride[i], b.dilation[i], std::abs(b.padding[i])})
            require(v <= most / 4, "unfold: kernel, stride, dilation or padding of ", v, " is too large");
        g.in[i] = x.size(2 + i);
        g.out[i] = (x.size(2 + i) + 2 * b.padding[i] - b.dilation[i] * (b.kernel[i] - 1) - 1) / b.stride[i] + 1;
        g.extent[i] = b.kernel[i];
        g.stride[i] = b.stride[i];
        g.padding[i] = b.padding[i];
        g.dilation[i] = b.dilation[i];
    }
    require(columns.size(0) == x.size(0) && columns.size(1) == x.size(1) * b.kernel[0] * b.kernel[1] &&
                columns.size(2) == std::int64_t(g.out[0]) * g.out[1],
            "unfold: columns ", to_string(columns.shape), " do not fit pictures ", to_string(x.shape));
    return g;
}

Kernel& kernel(Queue& queue, const char* name, DataType dtype, const char* options = "",
               const char* file = "kernels/unfold/unfold.cl")
{
    return queue.context().program(file, detail::define("X", dtype) + options).kernel(name);
}

const char* dense_option(const Geometry& g) { return g.stride[0] == 1 && g.stride[1] == 1 ? " -DDENSE" : ""; }

constexpr std::size_t chunk = 256;   // CHUNK of cpu_fold.cl

std::size_t blocks_of(std::size_t count, std::size_t size) { return (count + size - 1) / size; }

}  // namespace

void im2col(Queue& queue, const Tensor& x, const Tensor& columns, const Blocks& blocks)
{
    detail::check_operands("im2col", {{"x", x}, {"columns", columns}});
    const Geometry g = geometry_of(x, columns, blocks);
    if (columns.numel() == 0)
        return;
    const auto width = static_cast<std::size_t>(g.out[1]), height = static_cast<std::size_t>(g.out[0]);
    const auto planes = static_cast<std::size_t>(x.size(0) * x.size(1));
    if (queue.device().kind == DeviceKind::cpu && *dense_option(g)) {   // steps of a pixel: whole runs are copied
        const auto taps = static_cast<std::size_t>(g.extent[0]) * static_cast<std::size_t>(g.extent[1]);
        queue.launch(kernel(queue, "im2col", x.dtype, dense_option(g), "kernels/unfold/cpu_fold.cl"),
                     Range::groups({taps, planes, 1}, {1, 1, 1}), x, columns, g);
        return;
    }
    queue.launch(kernel(queue, "im2col", x.dtype), detail::plane_range(queue.device(), width, height, planes), x,
                 columns, g);
}

void col2im(Queue& queue, const Tensor& columns, const Tensor& x, const Blocks& blocks)
{
    detail::check_operands("col2im", {{"columns", columns}, {"x", x}});
    const Geometry g = geometry_of(x, columns, blocks);
    if (x.numel() == 0)
        return;
    const auto width = static_cast<std::size_t>(g.in[1]), height = static_cast<std::size_t>(g.in[0]);
    const auto planes = static_cast<std::size_t>(x.size(0) * x.size(1));
    const char* options = dense_option(g);
    if (queue.device().kind == DeviceKind::cpu) {
        const std::size_t each = std::clamp<std::size_t>(4096 / width, 1, height);
        queue.launch(kernel(queue, "col2im", x.dtype, options, "kernels/unfold/cpu_fold.cl"),
                     Range::groups({blocks_of(width, chunk), blocks_of(height, each), planes}, {1, 1, 1}), columns, x,
                     g, cl_int(each));
        return;
    }
    queue.launch(kernel(queue, "col2im", x.dtype, options),
                 detail::plane_range(queue.device(), width, height, planes), columns, x, g);
}

}  // namespace clprim
