#include <clprim/determinant.hpp>

#include <clprim/copy.hpp>
#include <clprim/linalg.hpp>

#include "kernels/linalg/linalg.hpp"
#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// y, a number for each of the matrices lu [batch, n, n] of any strides.
void multiply_diagonals(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& y)
{
    const std::string options = detail::define("X", y.dtype) +
                                " -DACC=" + std::string(opencl_compute_type(lu.dtype)) +
                                (is_complex(lu.dtype) ? " -DCOMPLEX" : "");
    queue.launch(queue.context().program("kernels/linalg/determinant.cl", options).kernel("determinant"),
                 Range::linear(static_cast<std::size_t>(lu.size(0)), 64), lu, pivots, y, cl_ulong(lu.size(0)),
                 cl_int(lu.size(1)), cl_long(lu.stride(0)), cl_long(lu.stride(1) + lu.stride(2)));
}

}  // namespace

void determinant(Queue& queue, const Tensor& x, const Tensor& y)
{
    detail::check_operands("determinant", {{"x", x}, {"y", y}});
    const std::size_t dims = x.dim();
    require(dims >= 2 && x.size(dims - 1) == x.size(dims - 2), "determinant: expected square matrices, got ",
            to_string(x.shape));
    require(y.shape == Dims(std::span(x.shape.begin(), dims - 2)) && y.dtype == x.dtype && is_floating_point(x.dtype),
            "determinant: the result must be ", name_of(x.dtype), ", one number for each matrix of ",
            to_string(x.shape));
    require(x.is_contiguous() && y.is_contiguous(), "determinant: tensors must be contiguous");
    const std::int64_t n = x.size(dims - 1), count = y.numel();
    require(n < std::int64_t{1} << 31, "determinant: matrices of ", n, " rows are too large");
    if (count == 0)
        return;
    // Factorisation overwrites its matrix: a copy in the type of sums.
    const DataType acc = detail::accumulate_type(x.dtype);
    const Tensor lu = queue.context().empty({count, n, n}, acc, queue),
                 pivots = queue.context().empty({count, n}, DataType::int32, queue),
                 info = queue.context().empty({count}, DataType::int32, queue);
    if (n)
        copy(queue, x, {lu.memory, acc, x.shape});
    lu_factor(queue, lu, pivots, info);
    multiply_diagonals(queue, lu, pivots, y);
}

void lu_determinant(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& y)
{
    detail::check_operands("lu_determinant", {{"lu", lu}, {"pivots", pivots}, {"y", y}});
    detail::check_matrices(lu, "lu_determinant");
    const std::int64_t count = lu.size(0), n = lu.size(1);
    require(lu.size(2) == n, "lu_determinant: expected square matrices, got ", to_string(lu.shape));
    detail::check_dense(pivots, {count, n}, DataType::int32, "lu_determinant: pivots");
    detail::check_dense(y, {count}, lu.dtype, "lu_determinant: y");
    if (count != 0)
        multiply_diagonals(queue, lu, pivots, y);
}

}  // namespace clprim
