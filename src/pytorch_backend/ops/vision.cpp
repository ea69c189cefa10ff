// torchvision's region pooling, nms and overlaps of rotated boxes. Schemas, meta functions and autograd come with
// torchvision; here are the kernels of the device, under the names that torchvision calls, and the autocast rules
// (computed in float32).
#include <ATen/ops/sort.h>
#include <clprim/nms.hpp>
#include <clprim/roi.hpp>
#include <torch/library.h>

#include "ops/vision.hpp"

#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using clprim::RoiMethod;
using clprim::RoiPooling;
using vision::check_same;

std::tuple<Tensor, Tensor> pool(const char* name, const RoiPooling& parameters, const Tensor& input, const Tensor& rois)
{
    TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "rois must have shape as Tensor[K, 5]");
    check_same(name, {input, "input"}, {{rois, "rois"}});
    const c10::OptionalDeviceGuard guard(input.device());
    const Tensor boxes = rois.contiguous();
    const clprim::Dims shape = clprim::roi_pooling_shape(parameters, view(input), view(boxes));
    const at::IntArrayRef sizes{shape.data(), shape.size()};
    const Tensor y = vision::result(sizes, input);
    const Tensor indices = parameters.method == RoiMethod::align ? Tensor() : empty(sizes, at::kInt, input.device());
    clprim::roi_pooling(current_queue(input), parameters, view(input), view(boxes), view(y),
                        indices.defined() ? view(indices) : clprim::Tensor());
    return {y, indices};
}

Tensor pool_backward(const char* name, const RoiPooling& parameters, const Tensor& grad, const Tensor& rois,
                     const Tensor& argmax, at::IntArrayRef sizes)
{
    check_same(name, {grad, "grad"}, {{rois, "rois"}});
    const c10::OptionalDeviceGuard guard(grad.device());
    const Tensor grad_input = vision::result(sizes, grad), boxes = rois.contiguous();
    const Tensor indices = argmax.defined() ? argmax.contiguous() : argmax;
    clprim::roi_pooling_backward(current_queue(grad), parameters, view(grad), view(boxes),
                                 indices.defined() ? view(indices) : clprim::Tensor(), view(grad_input));
    return grad_input;
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, std::int64_t height, std::int64_t width,
                 std::int64_t sampling_ratio, bool aligned)
{
    return std::get<0>(
        pool("roi_align", {RoiMethod::align, scale, height, width, sampling_ratio, aligned}, input, rois));
}

Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double scale, std::int64_t height, std::int64_t width,
                          std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t sampling_ratio,
                          bool aligned)
{
    return pool_backward("roi_align", {RoiMethod::align, scale, height, width, sampling_ratio, aligned}, grad, rois, {},
                         {n, c, h, w});
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double scale, std::int64_t height,
                                    std::int64_t width)
{
    return pool("roi_pool", {RoiMethod::pool, scale, height, width}, input, rois);
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, double scale,
                         std::int64_t height, std::int64_t width, std::int64_t n, std::int64_t c, std::int64_t h,
                         std::int64_t w)
{
    return pool_backward("roi_pool", {RoiMethod::pool, scale, height, width}, grad, rois, argmax, {n, c, h, w});
}

std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double scale, std::int64_t height,
                                        std::int64_t width, std::int64_t sampling_ratio)
{
    return pool("ps_roi_align", {RoiMethod::ps_align, scale, height, width, sampling_ratio}, input, rois);
}

Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double scale, std::int64_t height,
                             std::int64_t width, std::int64_t sampling_ratio, std::int64_t n, std::int64_t c,
                             std::int64_t h, std::int64_t w)
{
    return pool_backward("ps_roi_align", {RoiMethod::ps_align, scale, height, width, sampling_ratio}, grad, rois, {},
                         {n, c, h, w});
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double scale, std::int64_t height,
                                       std::int64_t width)
{
    return pool("ps_roi_pool", {RoiMethod::ps_pool, scale, height, width}, input, rois);
}

Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double scale, std::int64_t height,
                            std::int64_t width, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w)
{
    return pool_backward("ps_roi_pool", {RoiMethod::ps_pool, scale, height, width}, grad, rois, {}, {n, c, h, w});
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold)
{
    TORCH_CHECK(boxes.dim() == 2, "boxes should be a 2d tensor, got ", boxes.dim(), "D");
    TORCH_CHECK(boxes.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", boxes.size(1));
    TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
    TORCH_CHECK(boxes.size(0) == scores.size(0),
                "boxes and scores should have same number of elements in dimension 0, got ", boxes.size(0), " and ",
                scores.size(0));
    check_same("nms", {boxes, "dets"}, {{scores, "scores"}});
    const c10::OptionalDeviceGuard guard(boxes.device());
    const Tensor keep = empty({boxes.size(0)}, at::kLong, boxes.device());
    if (boxes.size(0) == 0)
        return keep;
    const Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous();
    const Tensor count = empty({1}, at::kLong, boxes.device());
    clprim::nms(current_queue(boxes), view(boxes), view(order), iou_threshold, view(keep), view(count));
    return keep.slice(0, 0, count.item<std::int64_t>());   // the size is data: the one place that waits
}

Tensor box_iou_rotated(const Tensor& boxes1, const Tensor& boxes2)
{
    for (const auto& [boxes, name, rows] : {std::tuple{boxes1, "boxes1", "N"}, {boxes2, "boxes2", "M"}})
        TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 5, name, " should have shape (", rows, ", 5), got ",
                    boxes.sizes());
    check_same("box_iou_rotated", {boxes1, "boxes1"}, {{boxes2, "boxes2"}});
    const c10::OptionalDeviceGuard guard(boxes1.device());
    const Tensor overlaps = empty({boxes1.size(0), boxes2.size(0)}, at::kFloat, boxes1.device());
    if (overlaps.numel() == 0)
        return overlaps;
    TORCH_CHECK_NOT_IMPLEMENTED(boxes1.scalar_type() == at::kFloat || boxes1.scalar_type() == at::kDouble,
                                "\"box_iou_rotated\" not implemented for '", boxes1.scalar_type(), "'");
    const Tensor first = boxes1.contiguous(), second = boxes2.contiguous();
    clprim::rotated_overlaps(current_queue(first), view(first), view(second), view(overlaps));
    return overlaps;
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m)
{
    m.impl("roi_align", roi_align);
    m.impl("_roi_align_backward", roi_align_backward);
    m.impl("roi_pool", roi_pool);
    m.impl("_roi_pool_backward", roi_pool_backward);
    m.impl("ps_roi_align", ps_roi_align);
    m.impl("_ps_roi_align_backward", ps_roi_align_backward);
    m.impl("ps_roi_pool", ps_roi_pool);
    m.impl("_ps_roi_pool_backward", ps_roi_pool_backward);
    m.impl("nms", nms);
    m.impl("box_iou_rotated", box_iou_rotated);
}

using vision::find_op;
using vision::no_autocast;
using vision::to_float;

Tensor nms_autocast(const Tensor& boxes, const Tensor& scores, double iou_threshold)
{
    const auto guard = no_autocast();
    static const auto op = find_op<Tensor(const Tensor&, const Tensor&, double)>("torchvision::nms");
    return op.call(to_float(boxes), to_float(scores), iou_threshold);
}

Tensor roi_align_autocast(const Tensor& input, const Tensor& rois, double scale, c10::SymInt height, c10::SymInt width,
                          std::int64_t sampling_ratio, bool aligned)
{
    const auto guard = no_autocast();
    static const auto op = find_op<Tensor(const Tensor&, const Tensor&, double, c10::SymInt, c10::SymInt, std::int64_t,
                                                 bool)>("torchvision::roi_align");
    return op.call(to_float(input), to_float(rois), scale, height, width, sampling_ratio, aligned)
        .to(input.scalar_type());
}

using PoolSignature = Two(const Tensor&, const Tensor&, double, c10::SymInt, c10::SymInt);

Two cast_both(const Two& outputs, at::ScalarType dtype)
{
    return {std::get<0>(outputs).to(dtype), std::get<1>(outputs).to(dtype)};   // both, as torchvision does
}

Two roi_pool_autocast(const Tensor& input, const Tensor& rois, double scale, c10::SymInt height, c10::SymInt width)
{
    const auto guard = no_autocast();
    static const auto op = find_op<PoolSignature>("torchvision::roi_pool");
    return cast_both(op.call(to_float(input), to_float(rois), scale, height, width), input.scalar_type());
}

Two ps_roi_pool_autocast(const Tensor& input, const Tensor& rois, double scale, c10::SymInt height, c10::SymInt width)
{
    const auto guard = no_autocast();
    static const auto op = find_op<PoolSignature>("torchvision::ps_roi_pool");
    return cast_both(op.call(to_float(input), to_float(rois), scale, height, width), input.scalar_type());
}

Two ps_roi_align_autocast(const Tensor& input, const Tensor& rois, double scale, c10::SymInt height, c10::SymInt width,
                          std::int64_t sampling_ratio)
{
    const auto guard = no_autocast();
    static const auto op = find_op<Two(const Tensor&, const Tensor&, double, c10::SymInt, c10::SymInt, std::int64_t)>(
        "torchvision::ps_roi_align");
    return cast_both(op.call(to_float(input), to_float(rois), scale, height, width, sampling_ratio),
                     input.scalar_type());
}

TORCH_LIBRARY_IMPL(torchvision, AutocastPrivateUse1, m)
{
    m.impl("nms", nms_autocast);
    m.impl("roi_align", roi_align_autocast);
    m.impl("roi_pool", roi_pool_autocast);
    m.impl("ps_roi_pool", ps_roi_pool_autocast);
    m.impl("ps_roi_align", ps_roi_align_autocast);
}

}  // namespace
}  // namespace torch_ocl
