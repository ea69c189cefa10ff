#include <clprim/nms.hpp>

#include <cmath>
#include <limits>

#include <clprim/copy.hpp>

#include "kernels/team.hpp"

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

}  // namespace

void nms(Queue& queue, const Tensor& boxes, const Tensor& order, double iou_threshold, const Tensor& keep,
         const Tensor& count)
{
    require(boxes.dim() == 2, "boxes should be a 2d tensor, got ", boxes.dim(), "D");
    require(boxes.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", boxes.size(1));
    require(is_floating_point(boxes.dtype), "nms: not implemented for ", name_of(boxes.dtype));
    const std::int64_t n = boxes.size(0);
    for (const Tensor* t : {&order, &keep})
        require(t->dtype == DataType::int64 && t->is_contiguous() && t->shape == Dims{n}, "nms: order and keep must be ",
                "contiguous int64 tensors with one element per box");
    require(count.dtype == DataType::int64 && count.numel() == 1, "nms: count must be an int64 tensor of one element");
    require(n < (1 << 28), "nms: ", n, " boxes are too many");
    if (n == 0) {
        fill(queue, count, 0.);
        return;
    }
    const cl_int words = static_cast<cl_int>(detail::divide_up(n, 64)), boxes_count = static_cast<cl_int>(n);
    const Tensor overlaps = queue.context().empty({n, words}, DataType::int64, queue),
                 dropped = queue.context().empty({words}, DataType::int64, queue);
    const Program& program = queue.context().program("kernels/nms/nms.cl", "-DX=" + std::string(name_of(boxes.dtype)));
    detail::launch(queue, program.kernel("nms_overlaps"), Range::linear(n * words, 64), boxes, cl_long{boxes.stride(0)},
                   cl_long{boxes.stride(1)}, order, overlaps, boxes_count, words,
                   detail::AccScalar{rounded_down(iou_threshold, boxes.dtype), boxes.dtype});
    queue.launch(program.kernel("nms_select"), Range::groups(1, 256), overlaps, order, dropped, keep, count, boxes_count,
                 words);
}

}  // namespace clprim
