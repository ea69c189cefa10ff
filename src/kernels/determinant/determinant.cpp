#include <clprim/determinant.hpp>

#include <clprim/copy.hpp>

#include "kernels/team.hpp"

namespace clprim {

void determinant(Queue& queue, const Tensor& x, const Tensor& y)
{
    const std::size_t dims = x.dim();
    require(dims >= 2 && x.size(dims - 1) == x.size(dims - 2), "determinant: expected square matrices, got ",
            to_string(x.shape));
    require(y.shape == Dims(std::span(x.shape.begin(), dims - 2)) && y.dtype == x.dtype && is_floating_point(x.dtype),
            "determinant: the result must be ", name_of(x.dtype), ", one number for each matrix of ",
            to_string(x.shape));
    require(x.is_contiguous() && y.is_contiguous(), "determinant: tensors must be contiguous");
    const std::int64_t n = x.size(dims - 1), count = y.numel();
    require(n < 32768, "determinant: matrices of ", n, " rows are too large");
    if (count == 0)
        return;
    // Elimination overwrites its matrix: a copy in the type of sums.
    const DataType acc = detail::accumulate_type(x.dtype);
    const Tensor work = queue.context().empty(x.shape, acc, queue);
    if (n)
        copy(queue, x, work);
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const std::size_t team = cpu ? 1 : std::min<std::size_t>(64, queue.device().max_work_group_size);
    Kernel& kernel = queue.context()
                         .program("kernels/determinant/determinant.cl",
                                  detail::define("X", x.dtype) + " -DACC=" + std::string(opencl_compute_type(acc)))
                         .kernel("determinant");
    queue.launch(kernel, Range::groups(static_cast<std::size_t>(count), team), work, y, cl_int(n));
}

}  // namespace clprim
