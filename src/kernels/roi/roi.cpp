#include <clprim/roi.hpp>

#include <algorithm>
#include <limits>

#include <clprim/copy.hpp>

#include "kernels/roi/launch.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace {

using roi::Strides;
using roi::strides_of;

// As kernels get it (roi.cl).
struct Problem {
    cl_int regions, batch, channels, height, width, out_channels, pooled_height, pooled_width, sampling_ratio, aligned;
};

constexpr const char* names[] = {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"};
const char* name_of(RoiMethod method) { return names[static_cast<int>(method)]; }

bool position_sensitive(RoiMethod method) { return method == RoiMethod::ps_align || method == RoiMethod::ps_pool; }

void check_rois(const char* op, const RoiPooling& p, const Tensor& rois)
{
    require(rois.dim() == 2 && rois.size(1) == 5, op, ": Tensor rois should have shape as Tensor[K, 5]");
    require(rois.is_contiguous(), op, ": rois must be contiguous");
    require(p.pooled_height > 0 && p.pooled_width > 0, op, ": pooled size must be positive, got ", p.pooled_height,
            " x ", p.pooled_width);
    require(p.pooled_height < 32768 && p.pooled_width < 32768 && p.sampling_ratio < 32768, op, ": pooled size ",
            p.pooled_height, " x ", p.pooled_width, " or sampling ratio ", p.sampling_ratio, " is too large");
}

Problem problem_of(const RoiPooling& p, const Dims& x, std::int64_t regions, std::int64_t out_channels)
{
    for (const std::int64_t size : x)
        require(size < std::numeric_limits<cl_int>::max(), name_of(p.method), ": a size of ", size, " is too large");
    require(x[2] * x[3] <= std::numeric_limits<cl_int>::max(), name_of(p.method),
            ": pictures of 2^31 pixels or more are not supported, got ", to_string(x));
    const auto i = [](std::int64_t v) { return static_cast<cl_int>(v); };
    return {i(regions), i(x[0]), i(x[1]), i(x[2]), i(x[3]), i(out_channels), i(p.pooled_height), i(p.pooled_width),
            i(p.sampling_ratio), p.aligned};
}

Kernel& kernel_of(Queue& queue, const RoiPooling& p, DataType dtype, const char* kernel)
{
    const std::string options =
        " -DMETHOD=" + std::to_string(static_cast<int>(p.method)) + (p.largest ? " -DLARGEST" : "");
    return roi::program(queue, "kernels/roi/roi.cl", dtype, options,
                        name_of(p.method)).kernel(kernel);
}

}  // namespace

Dims roi_pooling_shape(const RoiPooling& p, const Tensor& x, const Tensor& rois)
{
    const char* op = name_of(p.method);
    require(x.dim() == 4, op, ": input must be 4-dimensional, got ", x.dim(), " dimensions");
    check_rois(op, p, rois);
    require(x.dtype == rois.dtype, op, ": input should have the same type as rois, got ", clprim::name_of(x.dtype),
            " and ", clprim::name_of(rois.dtype));
    std::int64_t channels = x.size(1);
    if (position_sensitive(p.method)) {
        require(channels % (p.pooled_height * p.pooled_width) == 0, op,
                ": input channels must be a multiple of pooling height * pooling width");
        channels /= p.pooled_height * p.pooled_width;
    }
    return {rois.size(0), channels, p.pooled_height, p.pooled_width};
}

void roi_pooling(Queue& queue, const RoiPooling& p, const Tensor& x, const Tensor& rois, const Tensor& y,
                 const Tensor& indices)
{
    detail::check_operands("roi_pooling", {{"x", x}, {"rois", rois}, {"y", y},
                                           {"indices", indices, detail::optional}});
    const Dims shape = roi_pooling_shape(p, x, rois);
    require(y.shape == shape && y.dtype == x.dtype, name_of(p.method), ": the output must have shape ",
            to_string(shape), " and the dtype of input");
    require(p.method == RoiMethod::align || (indices.shape == shape && indices.dtype == DataType::int32
                                             && indices.is_contiguous()),
            name_of(p.method), ": the second output must be a contiguous int32 tensor of shape ", to_string(shape));
    if (y.numel() == 0)
        return;
    require(x.size(2) > 0 && x.size(3) > 0, name_of(p.method), ": input has no pixels");
    require(!p.largest || p.method == RoiMethod::align, name_of(p.method), ": `largest` is for roi_align");
    detail::launch(queue, kernel_of(queue, p, x.dtype, "roi_forward"), Range::linear(y.numel(), 64), x, strides_of(x),
                   rois, y, strides_of(y), indices, queue.error_buffer(), Queue::error_code(name_of(p.method)),
                   problem_of(p, x.shape, rois.size(0), shape[1]), detail::AccScalar{p.spatial_scale, x.dtype});
    queue.expect_errors();
}

void roi_pooling_backward(Queue& queue, const RoiPooling& p, const Tensor& grad_y, const Tensor& rois,
                          const Tensor& argmax, const Tensor& grad_x)
{
    detail::check_operands("roi_pooling_backward", {{"grad_y", grad_y}, {"rois", rois},
                                                    {"argmax", argmax, detail::optional}, {"grad_x", grad_x}});
    const char* op = name_of(p.method);
    check_rois(op, p, rois);
    require(grad_x.dim() == 4, op, "_backward: the gradient of input must be 4-dimensional");
    const std::int64_t out_channels =
        grad_x.size(1) / (position_sensitive(p.method) ? p.pooled_height * p.pooled_width : 1);
    const Dims shape{rois.size(0), out_channels, p.pooled_height, p.pooled_width};
    require(grad_y.shape == shape && grad_y.dtype == rois.dtype && grad_x.dtype == rois.dtype, op,
            "_backward: grad should have shape ", to_string(shape), " and the same type as rois");
    require(p.method != RoiMethod::pool ||
                (argmax.shape == shape && argmax.dtype == DataType::int32 && argmax.is_contiguous()),
            op, "_backward: argmax must be a contiguous int32 tensor of shape ", to_string(shape));
    roi::accumulate(queue, grad_x, [&](const Tensor& gx) {
        if (grad_y.numel() == 0)
            return;
        const roi::Bands bands = roi::bands_of(grad_x.shape);
        detail::launch(queue, kernel_of(queue, p, rois.dtype, "roi_backward"), bands.range, grad_y, strides_of(grad_y),
                       rois, argmax, gx, strides_of(gx), bands.rows,
                       problem_of(p, grad_x.shape, rois.size(0), out_channels),
                       detail::AccScalar{p.spatial_scale, rois.dtype});
    });
}

}  // namespace clprim
