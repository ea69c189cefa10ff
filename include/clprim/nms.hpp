// Non-maximum suppression of boxes.
#pragma once

#include <clprim/context.hpp>

namespace clprim {

// boxes: [N, 4] as x1, y1, x2, y2; float32, float64, float16 or bfloat16. order: [N] int64, box numbers by descending
// score. A box is dropped if its intersection over union with a kept earlier box exceeds the threshold. keep: [N] int64
// receives the numbers of the kept boxes in that order, count: [1] int64 how many. Needs N * N / 8 bytes of workspace.
// Throws InvalidArgument for wrong shapes or dtypes.
void nms(Queue& queue, const Tensor& boxes, const Tensor& order, double iou_threshold, const Tensor& keep,
         const Tensor& count);

}  // namespace clprim
