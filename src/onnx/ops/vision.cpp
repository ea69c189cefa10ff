// Regions of interest and non-maximum suppression.
#include <algorithm>
#include <numeric>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/roi.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// ONNX says apart which image a region lies in; the kernels read it in front of the corners.
Tensor numbered_regions(const Call& call, DataType type)
{
    const Tensor regions = call.tensor(1), images = call.tensor(2);
    call.check(regions.dim() == 2 && regions.size(1) == 4, "rois has shape ", to_string(regions.shape), ", expected [K, 4]");
    call.check(images.shape == Dims{regions.size(0)}, "batch_indices has shape ", to_string(images.shape), ", expected [",
               regions.size(0), "]");
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

struct Box {
    float top, left, bottom, right;
    float area() const { return (bottom - top) * (right - left); }
};

Box box_of(const float* b, bool centered)
{
    if (centered)
        return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

bool overlap(const Box& a, const Box& b, float threshold)
{
    const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
    const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
    if (height <= 0 || width <= 0)
        return false;
    const float common = height * width, both = a.area() + b.area() - common;
    return both > 0 && common / both > threshold;
}

struct Suppression {
    std::int64_t most = 0;
    float iou = 0, score = -std::numeric_limits<float>::infinity();
};

std::vector<std::int64_t> kept_boxes(std::span<const Box> boxes, const float* scores, const Suppression& rule)
{
    std::vector<std::int64_t> order, kept;
    for (std::size_t i = 0; i < boxes.size(); ++i)
        if (scores[i] > rule.score)
            order.push_back(static_cast<std::int64_t>(i));
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
    for (const std::int64_t candidate : order) {
        if (static_cast<std::int64_t>(kept.size()) >= rule.most)
            break;
        const Box& box = boxes[static_cast<std::size_t>(candidate)];
        if (std::ranges::none_of(kept, [&](std::int64_t k) { return overlap(boxes[static_cast<std::size_t>(k)], box, rule.iou); }))
            kept.push_back(candidate);
    }
    return kept;
}

// On the host: how many boxes are kept decides the shape of what follows, so the result is waited for in any case, and
// what is sorted and compared per class is little.
void non_max_suppression(Call& call)
{
    const Dims boxes_shape = call.shape(0), scores_shape = call.shape(1);
    call.check(boxes_shape.size() == 3 && boxes_shape[2] == 4, "boxes have shape ", to_string(boxes_shape),
               ", expected [batches, boxes, 4]");
    call.check(scores_shape.size() == 3 && scores_shape[0] == boxes_shape[0] && scores_shape[2] == boxes_shape[1],
               "scores have shape ", to_string(scores_shape), ", expected [", boxes_shape[0], ", classes, ", boxes_shape[1], "]");
    call.check(call.type(0) == ElementType::float32 && call.type(1) == ElementType::float32, "boxes and scores must be float32");
    Suppression rule;
    if (call.has(2))
        rule.most = call.integer(2);
    if (call.has(3))
        rule.iou = static_cast<float>(call.number(3));
    if (call.has(4))
        rule.score = static_cast<float>(call.number(4));
    const bool centered = call.integer_attribute("center_point_box", 0) != 0;
    const auto corners = call.input(0).host<float>(call.queue()), scores = call.input(1).host<float>(call.queue());
    const std::int64_t count = boxes_shape[1], classes = scores_shape[1];
    std::vector<std::int64_t> selected;
    std::vector<Box> boxes(static_cast<std::size_t>(count));
    for (std::int64_t batch = 0; batch < boxes_shape[0]; ++batch) {
        for (std::int64_t i = 0; i < count; ++i)
            boxes[static_cast<std::size_t>(i)] = box_of(&corners[static_cast<std::size_t>((batch * count + i) * 4)], centered);
        for (std::int64_t category = 0; category < classes && count > 0; ++category)
            for (const std::int64_t box : kept_boxes(boxes, &scores[static_cast<std::size_t>((batch * classes + category) * count)], rule))
                selected.insert(selected.end(), {batch, category, box});
    }
    call.output(0, Value::copy_of(ElementType::int64, {static_cast<std::int64_t>(selected.size() / 3), 3}, selected.data()));
}

const OperatorRow rows[] = {
    {"RoiAlign", 10, roi_align},
    {"MaxRoiPool", 1, max_roi_pool},
    {"NonMaxSuppression", 10, non_max_suppression},
};

}  // namespace

std::span<const OperatorRow> vision_operators() { return rows; }

}  // namespace clprim::onnx
