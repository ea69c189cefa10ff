#include <clprim/coupling.hpp>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {

void couple_pairs(Queue& queue, const Tensor& pairs, const Tensor& classes)
{
    detail::check_operands("couple_pairs", {{"pairs", pairs}, {"classes", classes}});
    require(pairs.dim() == 2 && classes.dim() == 2 && pairs.size(0) == classes.size(0) && classes.size(1) >= 2 &&
                pairs.size(1) == classes.size(1) * (classes.size(1) - 1) / 2,
            "couple_pairs: pairs [rows, k (k - 1) / 2] and classes [rows, k] expected, got ", to_string(pairs.shape),
            " and ", to_string(classes.shape));
    require(pairs.dtype == DataType::float32 && classes.dtype == DataType::float32 && pairs.is_contiguous() &&
                classes.is_contiguous(),
            "couple_pairs: contiguous float32 tensors expected");
    const std::int64_t rows = classes.size(0), k = classes.size(1);
    if (rows == 0)
        return;
    const Tensor work = queue.context().empty({k + 1, k, rows}, DataType::float32, queue);
    queue.launch(queue.context().program("kernels/coupling/coupling.cl").kernel("couple_pairs"),
                 Range::linear(static_cast<std::size_t>(rows), 64), pairs, classes, work, cl_long{rows},
                 static_cast<cl_int>(k));
}

}  // namespace clprim
