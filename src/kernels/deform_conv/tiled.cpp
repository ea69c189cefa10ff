// Deformable convolution by local-memory tiles (tiled.cl) and a gather over sorted bins (gather.cl). Serves every
// problem on every device.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include <clprim/copy.hpp>

#include "kernels/bins/bins.hpp"
#include "kernels/deform_conv/problem.hpp"

namespace clprim::deform_conv {

namespace {

constexpr std::int64_t tile = 64;
constexpr std::int64_t weight_splits = 16;   // partial sums of the weight gradient, at most

std::int64_t extent(const Tensor& t)   // from its first element to beyond its last
{
    std::int64_t last = 0;
    for (std::size_t axis = 0; axis < t.dim(); ++axis)
        last += std::max<std::int64_t>(t.size(axis) - 1, 0) * std::abs(t.stride(axis));
    return last + 1;
}

class Tiled {
public:
    // y: the result, or its gradient.
    Tiled(Queue& queue, const Problem& problem, const Tensor& y)
        : queue_(queue), in_(problem.inputs), g_(problem.geometry), real_(compute_dtype(in_.x.dtype)),
          options_(clprim::detail::concat("-DX=", name_of(in_.x.dtype), " -DOFFSET=",
                          std::max({extent(in_.x), extent(y), total()}) < std::int64_t{1} << 30 ? "int" : "long"))
    {
    }

    void forward(const Tensor& y)
    {
        const Tensor weight = pack_weight();
        launch("tiled", "deform_conv_forward",
               Range::groups(groups(divide_up(total(), tile), divide_up(g_.outputs_per_group(), tile), g_.groups),
                             {16, 16, 1}),
               in_.x, strides_of(in_.x), in_.offset, strides_of(in_.offset), in_.mask, strides_of(in_.mask), weight,
               in_.bias, cl_long{in_.bias.defined() ? in_.bias.stride(0) : -1}, y, strides_of(y), g_, g_.segment());
    }

    void backward(const Tensor& gy, const DeformConv2DGradients& out)
    {
        if (out.weight.defined())
            grad_weight(gy, out.weight);
        if (!out.x.defined() && !out.offset.defined() && !out.mask.defined())
            return;
        const Tensor weight = pack_weight();
        // Sums over chunks need the compute type; with it, the caller's own gradient serves.
        const bool direct = out.x.defined() && out.x.dtype == real_;
        const Tensor gx = !out.x.defined() || direct ? out.x : queue_.context().empty(in_.x.shape, real_, queue_);
        if (gx.defined())
            fill(queue_, gx, 0.);
        const std::int64_t per_pixel = std::int64_t{g_.taps()} * g_.channels * size_of(real_);
        const std::int64_t chunk = std::min(total(), std::max<std::int64_t>(1024, column_bytes / per_pixel));
        const Tensor columns = queue_.context().empty({g_.taps() * chunk * g_.channels}, real_, queue_);
        for (std::int64_t q0 = 0; q0 < total(); q0 += chunk) {
            const cl_int count = std::min(chunk, total() - q0);
            launch("tiled", "deform_conv_grad_columns",
                   Range::groups(groups(divide_up(count, tile), divide_up(g_.channels_per_group(), tile) * g_.groups,
                                        g_.taps()), {16, 16, 1}),
                   weight, gy, strides_of(gy), columns, cl_long{q0}, count, g_);
            if (out.offset.defined() || out.mask.defined())
                grad_offset(columns, out, q0, count);
            if (gx.defined())
                grad_x(columns, gx, q0, count);
        }
        if (gx.defined() && !direct)
            copy(queue_, gx, out.x);
    }

    void grad_bias(const Tensor& gy, const Tensor& gb)
    {
        launch("tiled", "deform_conv_grad_bias", Range::groups(g_.out_channels, 64), gy, strides_of(gy), gb,
               cl_long{gb.stride(0)}, g_);
    }

private:
    std::int64_t total() const { return g_.batch * g_.pixels(); }

    static std::array<std::size_t, 3> groups(std::int64_t a, std::int64_t b, std::int64_t c)
    {
        return {static_cast<std::size_t>(a), static_cast<std::size_t>(b), static_cast<std::size_t>(c)};
    }

    template <class... Arguments>
    void launch(const char* file, const char* kernel, const Range& range, const Arguments&... arguments)
    {
        const auto& program = queue_.context().program(std::string("kernels/deform_conv/") + file + ".cl", options_);
        queue_.launch(program.kernel(kernel), range, arguments...);
    }

    Tensor workspace(std::int64_t elements, DataType dtype)
    {
        return queue_.context().empty({elements}, dtype, queue_);
    }

    Tensor pack_weight()
    {
        const std::int64_t rows = std::int64_t{g_.taps()} * g_.channels_per_group();
        const Tensor packed = workspace(rows * g_.out_channels, real_);
        launch("tiled", "deform_conv_pack_weight",
               Range::groups(groups(divide_up(g_.outputs_per_group(), 16), divide_up(rows, 16), g_.groups),
                             {16, 16, 1}),
               in_.weight, strides_of(in_.weight), packed, g_);
        return packed;
    }

    void grad_weight(const Tensor& gy, const Tensor& gw)
    {
        const std::int64_t splits = std::clamp<std::int64_t>(total() / 512, 1, weight_splits);
        const std::int64_t per_split = divide_up(total(), splits);
        const Tensor partial = workspace(splits * gw.numel(), real_);
        const std::int64_t channel_tiles = divide_up(g_.segment(), tile) * (g_.channels / g_.segment());
        launch("tiled", "deform_conv_grad_weight",
               Range::groups(groups(divide_up(g_.outputs_per_group(), tile), channel_tiles, g_.taps() * splits),
                             {16, 16, 1}),
               in_.x, strides_of(in_.x), in_.offset, strides_of(in_.offset), in_.mask, strides_of(in_.mask), gy,
               strides_of(gy), partial, g_, g_.segment(), static_cast<cl_int>(per_split));
        launch("tiled", "deform_conv_sum_weight", Range::linear(gw.numel(), free_group), partial,
               static_cast<cl_int>(splits), gw, strides_of(gw), g_);
    }

    void grad_offset(const Tensor& columns, const DeformConv2DGradients& out, std::int64_t q0, cl_int count)
    {
        const std::int64_t samples = std::int64_t{g_.offset_groups} * g_.taps() * count;
        launch("gather", "deform_conv_grad_offset", Range::groups(divide_up(samples, 4), 64), in_.x, strides_of(in_.x),
               in_.offset, strides_of(in_.offset), in_.mask, strides_of(in_.mask), columns, out.offset,
               strides_of(out.offset), out.mask, strides_of(out.mask), cl_long{q0}, count, g_,
               cl_int{(out.offset.defined() ? 1 : 0) + (out.mask.defined() ? 2 : 0)});
    }

    void grad_x(const Tensor& columns, const Tensor& gx, std::int64_t q0, cl_int count)
    {
        const cl_int images = (q0 + count - 1) / g_.pixels() - q0 / g_.pixels() + 1;
        const std::int64_t samples = std::int64_t{g_.offset_groups} * g_.taps() * count;
        const std::int64_t bins = std::int64_t{g_.offset_groups} * images * (g_.height + 1) * (g_.width + 1);
        constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
        require(samples < limit && bins < limit, "deform_conv2d_backward: too many offset groups for this size");
        const Tensor points = workspace(3 * samples, real_), numbers = workspace(samples, DataType::int32);
        launch("gather", "deform_conv_bins", Range::linear(samples, free_group), in_.offset, strides_of(in_.offset),
               in_.mask, strides_of(in_.mask), points, numbers, cl_long{q0}, count, images, g_);
        const clprim::detail::Bins sorted = clprim::detail::sort_into_bins(queue_, numbers, bins);
        launch("gather", "deform_conv_gather", Range::linear(images * g_.image() * g_.channels, free_group), columns,
               points, sorted.begins, sorted.list, gx, strides_of(gx), cl_long{q0}, count, images, g_);
    }

    Queue& queue_;
    const DeformConv2DInputs& in_;
    const Geometry& g_;
    DataType real_;
    std::string options_;
};

}  // namespace

void grad_bias(Queue& queue, const Problem& problem, const Tensor& gy, const Tensor& gb)
{
    Tiled(queue, problem, gy).grad_bias(gy, gb);
}

const Implementation tiled{
    "tiled", [](const Problem&, const Device&) -> std::optional<std::string> { return {}; },
    [](Queue& queue, const Problem& problem, const Tensor& y) { Tiled(queue, problem, y).forward(y); },
    [](Queue& queue, const Problem& problem, const Tensor& gy, const DeformConv2DGradients& gradients) {
        Tiled(queue, problem, gy).backward(gy, gradients);
    }};

}  // namespace clprim::deform_conv
