// Regions of interest and non-maximum suppression.
#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/nms.hpp>
#include <clprim/roi.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// ONNX says apart which image a region lies in; the kernels read it in front of the corners.
Tensor numbered_regions(const Call& call, DataType type)
{
    const Tensor regions = call.tensor(1), images = call.tensor(2);
    call.check(regions.dim() == 2 && regions.size(1) == 4, "rois has shape ", to_string(regions.shape),
               ", expected [K, 4]");
    call.check(images.shape == Dims{regions.size(0)}, "batch_indices has shape ", to_string(images.shape),
               ", expected [", regions.size(0), "]");
    const Tensor result = call.allocate({regions.size(0), 5}, type);
    Tensor first = result.slice(1, 0, 1);
    first.shape = images.shape;
    first.strides = {result.stride(0)};
    if (result.numel()) {
        copy(call.queue(), images, first);
        copy(call.queue(), regions, result.slice(1, 1, 5));
    }
    return result;
}

void pool_regions(Call& call, const RoiPooling& parameters, const Tensor& regions)
{
    const Tensor x = call.tensor(0);
    const Dims shape = roi_pooling_shape(parameters, x, regions);
    const Tensor y = call.allocate(shape, x.dtype);
    Tensor positions;
    if (parameters.method == RoiMethod::pool)
        positions = call.allocate(shape, DataType::int32);
    call.output(0, Value(y));
    roi_pooling(call.queue(), parameters, x, regions, y, positions);
}

void roi_align(Call& call)
{
    RoiPooling parameters;
    parameters.spatial_scale = call.float_attribute("spatial_scale", 1);
    parameters.pooled_height = call.integer_attribute("output_height", 1);
    parameters.pooled_width = call.integer_attribute("output_width", 1);
    parameters.sampling_ratio = call.integer_attribute("sampling_ratio", 0);
    const std::string mode = call.string_attribute("mode", "avg");
    call.check(mode == "avg" || mode == "max", "mode is '", mode, "', expected avg or max");
    parameters.largest = mode == "max";
    const std::string transformation = call.string_attribute("coordinate_transformation_mode",
                                                             call.opset() < 16 ? "output_half_pixel" : "half_pixel");
    call.check(transformation == "half_pixel" || transformation == "output_half_pixel",
               "coordinate_transformation_mode is '", transformation, "', expected half_pixel or output_half_pixel");
    parameters.aligned = transformation == "half_pixel";
    pool_regions(call, parameters, numbered_regions(call, call.tensor(0).dtype));
}

void max_roi_pool(Call& call)
{
    const auto size = call.attribute<std::vector<std::int64_t>>("pooled_shape");
    call.check(size.size() == 2, "pooled_shape has ", size.size(), " entries, expected 2");
    RoiPooling parameters;
    parameters.method = RoiMethod::pool;
    parameters.spatial_scale = call.float_attribute("spatial_scale", 1);
    parameters.pooled_height = size[0];
    parameters.pooled_width = size[1];
    pool_regions(call, parameters, call.contiguous(1));
}

// Corners in ascending order, or the corners around given centres and sizes.
Tensor corners_of(const Call& call, const Tensor& boxes, bool centered)
{
    const Tensor corners = call.allocate(boxes.shape, boxes.dtype);
    const Tensor inputs[] = {boxes.slice(2, 0, 2), boxes.slice(2, 2, 4)};
    const Tensor outputs[] = {corners.slice(2, 0, 2), corners.slice(2, 2, 4)};
    pointwise(call.queue(), inputs, outputs, {},
              centered ? "y0 = x0 - x1 / 2; y1 = x0 + x1 / 2;" : "y0 = x0 < x1 ? x0 : x1; y1 = x0 < x1 ? x1 : x0;");
    return corners;
}

// Waits for the device once: how many boxes are kept is the shape of the output.
void non_max_suppression(Call& call)
{
    const Dims boxes = call.shape(0), scores = call.shape(1);
    call.check(boxes.size() == 3 && boxes[2] == 4, "boxes have shape ", to_string(boxes),
               ", expected [batches, boxes, 4]");
    call.check(scores.size() == 3 && scores[0] == boxes[0] && scores[2] == boxes[1], "scores have shape ",
               to_string(scores), ", expected [", boxes[0], ", classes, ", boxes[1], "]");
    call.check(call.type(0) == ElementType::float32 && call.type(1) == ElementType::float32,
               "boxes and scores must be float32");
    NmsLists lists;
    if (call.has(2))
        lists.most = call.integer(2);
    if (call.has(3))
        lists.iou_threshold = call.number(3);
    if (call.has(4))
        lists.score_threshold = call.number(4);
    call.check(lists.iou_threshold >= 0 && lists.iou_threshold <= 1, "iou_threshold is ", lists.iou_threshold,
               ", expected 0 to 1");
    const std::int64_t form = call.integer_attribute("center_point_box", 0);
    call.check(form == 0 || form == 1, "center_point_box is ", form, ", expected 0 or 1");
    if (scores.product() == 0 || lists.most <= 0) {
        call.output_tensor(0, {0, 3}, ElementType::int64);
        return;
    }
    lists.boxes = corners_of(call, call.tensor(0), form == 1);
    lists.scores = call.tensor(1);
    const NmsKept kept = nms(call.queue(), lists);
    nms_write(call.queue(), kept, call.output_tensor(0, {last_integer(call, kept.ends), 3}, ElementType::int64));
}

const OperatorRow vision_rows[] = {
    {"RoiAlign", 10, roi_align},
    {"MaxRoiPool", 1, max_roi_pool},
    {"NonMaxSuppression", 10, non_max_suppression},
};

}  // namespace

std::span<const OperatorRow> vision_operators() { return vision_rows; }

}  // namespace clprim::onnx
