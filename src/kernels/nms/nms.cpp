#include <clprim/nms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <clprim/copy.hpp>
#include <clprim/scan.hpp>
#include <clprim/sort.hpp>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {

namespace {

// Overlaps are compared as the threshold were exact (PyTorch passes a double): for a float, v > t exactly when v is
// above the largest float not above t.
double rounded_down(double threshold, DataType dtype)
{
    if (dtype == DataType::float64)
        return threshold;
    const float f = static_cast<float>(threshold);
    return f > threshold ? std::nextafter(f, -std::numeric_limits<float>::infinity()) : f;
}

std::size_t list_group(const Queue& queue)
{
    return queue.device().kind == DeviceKind::gpu && queue.device().max_work_group_size >= 256 ? 256 : 64;
}

const Program& list_program(Queue& queue, DataType dtype)
{
    return queue.context().program("kernels/nms/nms.cl",
                                   detail::concat("-DX=", name_of(dtype), " -DGROUP=", list_group(queue)));
}

}  // namespace

void nms(Queue& queue, const Tensor& boxes, const Tensor& order, double iou_threshold, const Tensor& keep,
         const Tensor& count)
{
    detail::check_operands("nms", {{"boxes", boxes}, {"order", order}, {"keep", keep}, {"count", count}});
    require(boxes.dim() == 2, "boxes should be a 2d tensor, got ", boxes.dim(), "D");
    require(boxes.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", boxes.size(1));
    require(is_floating_point(boxes.dtype), "nms: not implemented for ", name_of(boxes.dtype));
    const std::int64_t n = boxes.size(0);
    for (const Tensor* t : {&order, &keep})
        require(t->dtype == DataType::int64 && t->is_contiguous() && t->shape == Dims{n},
                "nms: order and keep must be ", "contiguous int64 tensors with one element per box");
    require(count.dtype == DataType::int64 && count.numel() == 1, "nms: count must be an int64 tensor of one element");
    require(n < (1 << 28), "nms: ", n, " boxes are too many");
    if (n == 0) {
        fill(queue, count, 0.);
        return;
    }
    const cl_int words = static_cast<cl_int>(detail::divide_up(n, 64)), boxes_count = static_cast<cl_int>(n);
    const Tensor overlaps = queue.context().empty({n, words}, DataType::int64, queue),
                 dropped = queue.context().empty({words}, DataType::int64, queue);
    const std::size_t group = std::min<std::size_t>(256, queue.device().max_work_group_size);
    const Program& program = queue.context().program(
        "kernels/nms/nms.cl", detail::concat("-DX=", name_of(boxes.dtype), " -DSELECT=", group));
    detail::launch(queue, program.kernel("nms_overlaps"), Range::linear(n * words, 64), boxes, cl_long{boxes.stride(0)},
                   cl_long{boxes.stride(1)}, order, overlaps, boxes_count, words,
                   detail::AccScalar{rounded_down(iou_threshold, boxes.dtype), boxes.dtype});
    queue.launch(program.kernel("nms_select"), Range::groups(1, group), overlaps, order, dropped, keep, count,
                 boxes_count, words);
}

NmsKept nms(Queue& queue, const NmsLists& lists)
{
    const Tensor &boxes = lists.boxes, &scores = lists.scores;
    detail::check_operands("nms", {{"boxes", boxes}, {"scores", scores}});
    require(boxes.dim() == 3 && boxes.size(2) == 4 && boxes.is_contiguous(), "nms: boxes have shape ",
            to_string(boxes.shape), ", expected contiguous [images, boxes, 4]");
    require(scores.dim() == 3 && scores.size(0) == boxes.size(0) && scores.size(2) == boxes.size(1),
            "nms: scores have shape ", to_string(scores.shape), ", expected [", boxes.size(0), ", classes, ",
            boxes.size(1), "]");
    require(is_floating_point(boxes.dtype) && scores.dtype == boxes.dtype, "nms: not implemented for ",
            name_of(boxes.dtype), " boxes and ", name_of(scores.dtype), " scores");
    require(scores.numel() > 0 && lists.most > 0, "nms: there is nothing to select from");
    const std::int64_t n = boxes.size(1), classes = scores.size(1), count = scores.size(0) * classes;
    const std::int64_t most = std::min(lists.most, n);
    require(n < (1 << 28) && classes < (1 << 28), "nms: ", n, " boxes of ", classes, " classes are too many");
    Context& context = queue.context();
    const Tensor sorted = context.empty(scores.shape, scores.dtype, queue),
                 order = context.empty(scores.shape, DataType::int64, queue),
                 counts = context.empty({count}, DataType::int64, queue);
    const NmsKept kept{context.empty({scores.size(0), classes, most}, DataType::int64, queue),
                       context.empty({count}, DataType::int64, queue)};
    sort(queue, scores, 2, true, sorted, order);
    const auto threshold = [&](double value) {
        return detail::AccScalar{rounded_down(value, boxes.dtype), boxes.dtype};
    };
    detail::launch(queue, list_program(queue, boxes.dtype).kernel("nms_lists"),
                   Range::groups(static_cast<std::size_t>(count), list_group(queue)), boxes, sorted, order, kept.boxes,
                   counts, static_cast<cl_int>(n), static_cast<cl_int>(classes), static_cast<cl_int>(most),
                   threshold(lists.iou_threshold), cl_int{lists.score_threshold.has_value()},
                   threshold(lists.score_threshold.value_or(0)));
    cumulative(queue, counts, 0, Scan::sum, kept.ends);
    return kept;
}

void nms_write(Queue& queue, const NmsKept& kept, const Tensor& triples)
{
    detail::check_operands("nms_write", {{"kept.boxes", kept.boxes}, {"kept.ends", kept.ends}, {"triples", triples}});
    require(triples.dtype == DataType::int64 && triples.dim() == 2 && triples.size(1) == 3 && triples.is_contiguous(),
            "nms: triples must be contiguous int64 [boxes, 3]");
    require(kept.boxes.dtype == DataType::int64 && kept.boxes.dim() == 3 && kept.boxes.is_contiguous() &&
                kept.ends.dtype == DataType::int64 && kept.ends.is_contiguous() &&
                kept.ends.numel() == kept.boxes.size(0) * kept.boxes.size(1),
            "nms: what is kept must be contiguous int64 [images, classes, boxes] with an end for each list, got ",
            to_string(kept.boxes.shape), " and ", to_string(kept.ends.shape));
    if (triples.numel() == 0 || kept.boxes.numel() == 0)
        return;
    queue.launch(list_program(queue, DataType::float32).kernel("nms_triples"), Range::linear(kept.boxes.numel(), 64),
                 kept.boxes, kept.ends, triples, cl_long{kept.ends.numel()}, cl_long{kept.boxes.size(2)},
                 static_cast<cl_int>(kept.boxes.size(1)), cl_long{triples.size(0)});
}

void rotated_overlaps(Queue& queue, const Tensor& first, const Tensor& second, const Tensor& overlaps)
{
    detail::check_operands("rotated_overlaps", {{"first", first}, {"second", second}, {"overlaps", overlaps}});
    for (const Tensor* boxes : {&first, &second})
        require(boxes->dim() == 2 && boxes->size(1) == 5 && boxes->is_contiguous(),
                "rotated_overlaps: boxes have shape ", to_string(boxes->shape), ", expected contiguous [boxes, 5]");
    require((first.dtype == DataType::float32 || first.dtype == DataType::float64) && second.dtype == first.dtype,
            "rotated_overlaps: not implemented for ", name_of(first.dtype), " and ", name_of(second.dtype), " boxes");
    require(overlaps.dtype == DataType::float32 && overlaps.is_contiguous() &&
                overlaps.shape == Dims{first.size(0), second.size(0)},
            "rotated_overlaps: overlaps must be contiguous float32 [first boxes, second boxes]");
    if (overlaps.numel() == 0)
        return;
    queue.launch(queue.context()
                     .program("kernels/nms/rotated.cl", detail::concat("-DX=", name_of(first.dtype)))
                     .kernel("rotated_overlaps"),
                 Range::linear(overlaps.numel(), 64), first, second, overlaps, cl_long{overlaps.numel()},
                 cl_long{second.size(0)});
}

}  // namespace clprim
