#include <clprim/psroi_pool.hpp>

#include "kernels/roi/launch.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace {

using detail::AccScalar;
using roi::strides_of;

constexpr const char* op = "deform_psroi_pooling";

// As kernels get it (psroi_pool.cl).
struct Problem {
    cl_int regions, batch, channels, height, width, output_dim, group_size, pooled, parts, samples, classes, no_trans;
};

Problem check(const DeformPSRoiPooling& p, const Tensor& x, const Tensor& rois, const Tensor& trans)
{
    require(x.dim() == 4, op, ": input must be 4-dimensional, got ", x.dim(), " dimensions");
    require(rois.dim() == 2 && rois.size(1) == 5, op, ": rois must have shape [K, 5]");
    require(rois.dtype == x.dtype, op, ": input and rois must have the same dtype");
    require(rois.is_contiguous(), op, ": rois must be contiguous");
    for (const std::int64_t v : {p.output_dim, p.group_size, p.pooled_size, p.part_size, p.sample_per_part})
        require(v > 0 && v < (1 << 24), op,
                ": output_dim, group_size, pooled_size, part_size and sample_per_part must be ", "positive, got ", v);
    require(p.sample_per_part <= 1024, op,
            ": sample_per_part must be at most 1024, since every bin takes its square of samples, got ",
            p.sample_per_part);
    require(x.size(1) == p.output_dim * p.group_size * p.group_size, op,
            ": input channels and output channels must agree: ", "got ", x.size(1),
            ", expected output_dim * group_size^2 = ", p.output_dim * p.group_size * p.group_size);
    std::int64_t classes = 1;
    if (!p.no_trans) {
        require(trans.defined() && trans.dim() == 4 && trans.dtype == x.dtype && trans.is_contiguous(), op,
                ": trans must be a contiguous 4-dimensional tensor of the dtype of input");
        classes = trans.size(1) / 2;
        require(trans.shape == Dims{rois.size(0), 2 * classes, p.part_size, p.part_size} && classes > 0, op,
                ": trans must have shape [K, 2 * classes, part_size, part_size], got ", to_string(trans.shape));
        require(p.output_dim % classes == 0, op, ": output_dim ", p.output_dim, " must be divisible by ", classes,
                " classes");
    }
    const auto i = [](std::int64_t v) { return static_cast<cl_int>(v); };
    return {i(rois.size(0)), i(x.size(0)), i(x.size(1)), i(x.size(2)), i(x.size(3)), i(p.output_dim), i(p.group_size),
            i(p.pooled_size), i(p.part_size), i(p.sample_per_part), i(classes), p.no_trans};
}

Kernel& kernel_of(Queue& queue, const Tensor& x, const char* name)
{
    return roi::program(queue, "kernels/psroi_pool/psroi_pool.cl", x.dtype, "", op).kernel(name);
}

}  // namespace

Dims deform_psroi_pooling_shape(const DeformPSRoiPooling& p, const Tensor& x, const Tensor& rois, const Tensor& trans)
{
    check(p, x, rois, trans);
    return {rois.size(0), p.output_dim, p.pooled_size, p.pooled_size};
}

void deform_psroi_pooling(Queue& queue, const DeformPSRoiPooling& p, const Tensor& x, const Tensor& rois,
                          const Tensor& trans, const Tensor& y, const Tensor& count)
{
    detail::check_operands("deform_psroi_pooling", {{"x", x}, {"rois", rois}, {"trans", trans, detail::optional},
                                                    {"y", y}, {"count", count}});
    const Problem problem = check(p, x, rois, trans);
    const Dims shape{rois.size(0), p.output_dim, p.pooled_size, p.pooled_size};
    for (const Tensor* t : {&y, &count})
        require(t->shape == shape && t->dtype == x.dtype && t->is_contiguous(), op,
                ": outputs must be contiguous, of shape ", to_string(shape), " and of the dtype of input");
    if (y.numel() == 0)
        return;
    require(x.size(2) > 0 && x.size(3) > 0, op, ": input has no pixels");
    detail::launch(queue, kernel_of(queue, x, "deform_psroi_forward"), Range::linear(y.numel(), 64), x, strides_of(x),
                   rois, p.no_trans ? Tensor() : trans, y, count, queue.error_buffer(), Queue::error_code(op), problem,
                   AccScalar{p.spatial_scale, x.dtype}, AccScalar{p.trans_std, x.dtype});
    queue.expect_errors();
}

void deform_psroi_pooling_backward(Queue& queue, const DeformPSRoiPooling& p, const Tensor& grad_y, const Tensor& x,
                                   const Tensor& rois, const Tensor& trans, const Tensor& count, const Tensor& grad_x,
                                   const Tensor& grad_trans)
{
    detail::check_operands("deform_psroi_pooling_backward",
                           {{"grad_y", grad_y}, {"x", x}, {"rois", rois}, {"trans", trans, detail::optional},
                            {"count", count}, {"grad_x", grad_x}, {"grad_trans", grad_trans, detail::optional}});
    const Problem problem = check(p, x, rois, trans);
    const Dims shape{rois.size(0), p.output_dim, p.pooled_size, p.pooled_size};
    for (const Tensor* t : {&grad_y, &count})
        require(t->shape == shape && t->dtype == x.dtype && t->is_contiguous(), op,
                "_backward: the gradient and count must ", "be contiguous, of shape ", to_string(shape),
                " and of the dtype of input");
    require(grad_x.shape == x.shape && grad_x.dtype == x.dtype, op,
            "_backward: the gradient of input must have its shape ", "and dtype");
    const Tensor shifts = p.no_trans ? Tensor() : trans;
    const AccScalar scale{p.spatial_scale, x.dtype}, trans_std{p.trans_std, x.dtype};
    roi::accumulate(queue, grad_x, [&](const Tensor& gx) {
        if (grad_y.numel() == 0)
            return;
        const roi::Bands bands = roi::bands_of(x.shape);
        detail::launch(queue, kernel_of(queue, x, "deform_psroi_backward_x"), bands.range, grad_y, rois, shifts, count,
                       gx, strides_of(gx), bands.rows, problem, scale, trans_std);
    });
    if (p.no_trans || !grad_trans.defined() || grad_trans.numel() == 0)
        return;
    require(grad_trans.shape == trans.shape && grad_trans.dtype == trans.dtype && grad_trans.is_contiguous(), op,
            "_backward: the gradient of trans must be contiguous, of its shape and dtype");
    detail::launch(queue, kernel_of(queue, x, "deform_psroi_backward_trans"), Range::linear(grad_trans.numel() / 2, 64),
                   grad_y, x, strides_of(x), rois, shifts, count, grad_trans, problem, scale, trans_std);
}

}  // namespace clprim
