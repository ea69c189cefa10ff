// Non-maximum suppression of boxes; overlaps of rotated boxes.
#pragma once

#include <optional>

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// boxes: [N, 4] as x1, y1, x2, y2; float32, float64, float16 or bfloat16. order: [N] int64, box numbers by descending
// score. A box is dropped if its intersection over union with a kept earlier box exceeds the threshold. keep: [N] int64
// receives the numbers of the kept boxes in that order, count: [1] int64 how many. Needs N * N / 8 bytes of workspace.
// Throws InvalidArgument for wrong shapes or dtypes.
void nms(Queue& queue, const Tensor& boxes, const Tensor& order, double iou_threshold, const Tensor& keep,
         const Tensor& count);

// Suppression per image and class, each a list of its own: a box is kept if its score is above the threshold (where
// there is one; NaN is never kept) and its overlap with no kept box of a higher score, or of the same score and a lower
// number, exceeds iou_threshold. At most `most` boxes are kept of a list.
struct NmsLists {
    Tensor boxes;                            // [images, N, 4] as x1, y1, x2, y2, contiguous
    Tensor scores;                           // [images, classes, N] of the same dtype
    double iou_threshold = 0;
    std::optional<double> score_threshold{};
    std::int64_t most = 0;
};
struct NmsKept {
    Tensor boxes;                            // int64 [images, classes, min(most, N)]: numbers by descending score
    Tensor ends;                             // int64 [images * classes]: inclusive sums of how many each list keeps
};
// Throws InvalidArgument for wrong shapes, dtypes or fewer than one list, box or `most`.
NmsKept nms(Queue& queue, const NmsLists& lists);
// triples: int64 [ends.back(), 3], contiguous: (image, class, box) of what is kept, list by list.
void nms_write(Queue& queue, const NmsKept& kept, const Tensor& triples);

// overlaps: float32 [N, M], intersection over union of each of the first boxes with each of the second. Boxes: [N, 5]
// and [M, 5], contiguous, float32 or float64: centre x and y, width, height, and the angle in degrees by which the box
// is turned from the x axis towards the negative y axis. A box without area overlaps nothing. Throws InvalidArgument
// for wrong shapes or dtypes.
void rotated_overlaps(Queue& queue, const Tensor& first, const Tensor& second, const Tensor& overlaps);

}  // namespace clprim
CLPRIM_API_END
