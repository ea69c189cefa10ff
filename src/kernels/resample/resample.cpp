#include <clprim/resample.hpp>

#include <algorithm>
#include <string>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// resample_t of resample.cl
template <class Acc>
struct Geometry {
    Acc scale[3];
    cl_int in[3], out[3];
    cl_uint channels, planes;
    cl_int align_corners;
};

constexpr const char* filter_names[] = {"nearest", "nearest_exact", "linear", "cubic", "antialias_linear",
                                        "antialias_cubic", "antialias_lanczos"};

// Input elements per output element, computed in the type that the kernel computes in: the same rounding decides the
// same taps as in PyTorch.
template <class Acc>
Acc scale(std::int64_t in, std::int64_t out, double factor, const Resampling& how)
{
    const bool nearest = how.filter <= Filter::nearest_exact;
    if (how.align_corners && !nearest)
        return out > 1 ? static_cast<Acc>(in - 1) / static_cast<Acc>(out - 1) : Acc(0);
    if (nearest)
        return factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(in) / static_cast<float>(out);
    return factor > 0 ? static_cast<Acc>(1.0 / factor) : static_cast<Acc>(in) / static_cast<Acc>(out);
}

// `from` has the input's sizes, `to` the output's; `owner` is the one whose elements the work-items own.
template <class Acc>
void run(Queue& queue, const char* name, const Tensor& from, const Tensor& to, const Resampling& how, bool backward)
{
    require(from.dim() >= 3 && from.dim() <= 5 && to.dim() == from.dim() && from.size(0) == to.size(0) &&
                from.size(1) == to.size(1) && from.dtype == to.dtype,
            "resample: shapes or dtypes do not fit: ", to_string(from.shape), " and ", to_string(to.shape));
    const bool channels_last = !(from.is_contiguous() && to.is_contiguous());
    require(!channels_last || (from.is_channels_last() && to.is_channels_last()),
            "resample: both sides must be contiguous or both channels_last");
    const bool bytes = from.dtype == DataType::uint8;
    require(is_floating_point(from.dtype) || (bytes && !backward), "resample: no kernel for ", name_of(from.dtype));
    const Tensor& owner = backward ? from : to;
    if (owner.numel() == 0)
        return;
    require(from.numel() != 0 && to.numel() != 0, "resample: sizes must be positive, got ", to_string(from.shape),
            " and ", to_string(to.shape));
    for (const Tensor* t : {&from, &to})
        require(t->numel() / (t->size(0) * t->size(1)) < std::int64_t{1} << 31,
                "resample: planes of 2^31 elements or more are not supported, got ", to_string(t->shape));
    Geometry<Acc> geometry{};
    const std::size_t rank = from.dim() - 2;
    for (std::size_t i = 0; i < 3; ++i) {
        const bool used = i + rank >= 3;
        const std::size_t axis = used ? i + rank - 3 : 0;
        geometry.in[i] = used ? from.size(axis + 2) : 1;
        geometry.out[i] = used ? to.size(axis + 2) : 1;
        geometry.scale[i] = used ? scale<Acc>(geometry.in[i], geometry.out[i], how.scale_factors[axis], how) : Acc(1);
    }
    geometry.channels = from.size(1);
    geometry.planes = static_cast<cl_uint>(from.size(0) * from.size(1));
    geometry.align_corners = how.align_corners;
    std::string options = detail::define("X", from.dtype) + (sizeof(Acc) == 8 ? " -DACC=double" : " -DACC=float") +
                          " -DFILTER=" + filter_names[static_cast<int>(how.filter)];
    options += " -DDIMS=" + std::to_string(from.dim() - 2);
    if (channels_last)
        options += " -DCHANNELS_LAST";
    if (bytes)
        options += " -DBYTES";
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    if (channels_last && !cpu && (from.size(1) | from.buffer_offset() | to.buffer_offset()) % 4 == 0)
        options += " -DQUADS";
    Kernel& kernel = queue.context().program("kernels/resample/resample.cl", options).kernel(name);
    // As laid out in resample.cl.
    const std::size_t planes_together = cpu ? 1 : 4;   // PLANES
    const auto& sizes = backward ? geometry.in : geometry.out;
    const std::size_t columns = static_cast<std::size_t>(sizes[2]), channels = geometry.channels,
                      rows = static_cast<std::size_t>(sizes[0]) * static_cast<std::size_t>(sizes[1]),
                      images = static_cast<std::size_t>(from.size(0));
    const auto blocks = [&](std::size_t all) { return (all + planes_together - 1) / planes_together; };
    const std::size_t planes = blocks(images * channels);
    const std::size_t first = channels_last ? blocks(channels) : columns, second = channels_last ? columns : rows;
    const Range range =
        detail::plane_range(queue.device(), first, second, channels_last ? images * rows : planes);
    queue.launch(kernel, range, backward ? to : from, backward ? from : to, geometry);
}

}  // namespace

void resample(Queue& queue, const Tensor& x, const Tensor& y, const Resampling& how)
{
    detail::check_operands("resample", {{"x", x}, {"y", y}});
    if (x.dtype == DataType::float64)
        run<double>(queue, "resample", x, y, how, false);
    else
        run<float>(queue, "resample", x, y, how, false);
}

void resample_backward(Queue& queue, const Tensor& grad_output, const Tensor& grad_input, const Resampling& how)
{
    detail::check_operands("resample_backward", {{"grad_output", grad_output}, {"grad_input", grad_input}});
    if (grad_input.dtype == DataType::float64)
        run<double>(queue, "resample_backward", grad_input, grad_output, how, true);
    else
        run<float>(queue, "resample_backward", grad_input, grad_output, how, true);
}

}  // namespace clprim
