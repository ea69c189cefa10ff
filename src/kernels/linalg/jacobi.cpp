// Singular values and eigenvalues by Jacobi rotations.
#include <cmath>

#include <clprim/copy.hpp>
#include <clprim/gemm.hpp>

#include "kernels/linalg/linalg.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

using namespace detail;

Kernel& kernel(Queue& queue, const char* name, DataType dtype)
{
    return linalg_kernel(queue, "kernels/linalg/jacobi.cl", name, dtype);
}

constexpr int most_sweeps = 40;   // some ten are enough

double epsilon_of(DataType real) { return real == DataType::float64 ? 0x1p-52 : 0x1p-23; }
double smallest_normal(DataType real) { return real == DataType::float64 ? 0x1p-1022 : 0x1p-126; }

// Rows of w [batch, n, m] become orthogonal by rotations, which v [batch, n, n] takes.
void turn(Queue& queue, const Tensor& w, const Tensor& v)
{
    const std::int64_t n = w.size(1), m = w.size(2);
    const DataType real = real_type(w.dtype);
    launch(queue, kernel(queue, "jacobi", w.dtype),
           Range::groups(static_cast<std::size_t>(w.size(0)), linalg_team(queue.device())), w, v, cl_int(m), cl_int(n),
           cl_int(most_sweeps), AccScalar{epsilon_of(real) * std::sqrt(static_cast<double>(m)), real},
           AccScalar{smallest_normal(real) / epsilon_of(real), real});
}

// Singular values of float32 on CPUs with float64, by the eigenvalues of A^H A, whose squares lose no digit that
// float32 has: what is wrong with values stays below 1e-8 of the largest.
void gram_svd(Queue& queue, const Tensor& columns, const Tensor& vectors, const Tensor& values)
{
    const std::int64_t batch = columns.size(0), n = columns.size(1), m = columns.size(2);
    const auto empty = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float64, queue); };
    const Tensor a = empty(columns.shape), gram = empty({batch, n, n}), v = empty({batch, n, n}),
                 squares = empty({batch, n}), w = empty(columns.shape), norms = empty({batch, n}),
                 sorted_w = empty(columns.shape), sorted_v = empty({batch, n, n}), sorted = empty({batch, n});
    const auto multiply = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
        gemm(queue, gemm_problem(x, y, z), x, y, z);
    };
    copy(queue, columns, a);
    multiply(a, a.transpose(1, 2), gram);
    tridiagonal_eigh(queue, gram, v, squares);
    multiply(v, a, w);   // U S: their norms are more exact than roots of the eigenvalues
    const auto items = static_cast<cl_ulong>(batch * n);
    queue.launch(kernel(queue, "column_norms", w.dtype), Range::linear(items, 16), w, norms, cl_int(m), items);
    queue.launch(kernel(queue, "sort_columns", w.dtype), Range::linear(items, 16), w, v, norms, sorted_w, sorted_v,
                 sorted, cl_int(m), cl_int(n), cl_int(0), items);
    copy(queue, sorted_w, columns);
    copy(queue, sorted_v, vectors);
    copy(queue, sorted, values);
}

}  // namespace

void jacobi_svd(Queue& queue, const Tensor& columns, const Tensor& vectors, const Tensor& values)
{
    detail::check_operands("jacobi_svd", {{"columns", columns}, {"vectors", vectors, detail::optional},
                                          {"values", values}});
    check_matrices(columns, "jacobi_svd");
    const std::int64_t batch = columns.size(0), n = columns.size(1);
    require(n <= columns.size(2), "jacobi_svd: expected no more columns than rows, got the transposed ",
            to_string(columns.shape));
    check_dense(columns, columns.shape, columns.dtype, "jacobi_svd: columns");
    check_dense(vectors, {batch, n, n}, columns.dtype, "jacobi_svd: vectors");
    check_dense(values, {batch, n}, real_type(columns.dtype), "jacobi_svd: values");
    if (columns.numel() == 0)
        return;
    if (columns.dtype == DataType::float32 && queue.device().fp64 && takes_tridiagonal(queue.device(), columns.dtype))
        return gram_svd(queue, columns, vectors, values);
    const auto items = static_cast<cl_ulong>(batch * n);
    const auto m = static_cast<cl_int>(columns.size(2));
    const Tensor w = queue.context().empty(columns.shape, columns.dtype, queue);
    const Tensor v = queue.context().empty(vectors.shape, columns.dtype, queue);
    const Tensor norms = queue.context().empty(values.shape, values.dtype, queue);
    copy(queue, columns, w);
    turn(queue, w, v);
    queue.launch(kernel(queue, "column_norms", w.dtype), Range::linear(items, 16), w, norms, m, items);
    queue.launch(kernel(queue, "sort_columns", w.dtype), Range::linear(items, 16), w, v, norms, columns, vectors,
                 values, m, cl_int(n), cl_int(0), items);
}

void jacobi_eigh(Queue& queue, const Tensor& a, const Tensor& vectors, const Tensor& values)
{
    detail::check_operands("jacobi_eigh", {{"a", a}, {"vectors", vectors, detail::optional}, {"values", values}});
    check_matrices(a, "jacobi_eigh");
    const std::int64_t batch = a.size(0), n = a.size(1);
    check_dense(a, {batch, n, n}, a.dtype, "jacobi_eigh: a");
    if (vectors.defined())
        check_dense(vectors, {batch, n, n}, a.dtype, "jacobi_eigh: vectors");
    check_dense(values, {batch, n}, real_type(a.dtype), "jacobi_eigh: values");
    if (a.numel() == 0)
        return;
    if (takes_tridiagonal(queue.device(), a.dtype))
        return tridiagonal_eigh(queue, a, vectors, values);
    const auto items = static_cast<cl_ulong>(batch * n);
    const std::int64_t pairs = (n + 1) / 2;
    Context& context = queue.context();
    const Tensor w = context.empty(a.shape, a.dtype, queue), v = context.empty(a.shape, a.dtype, queue);
    const Tensor quotients = context.empty(values.shape, values.dtype, queue);
    const Tensor turns = context.empty({batch, pairs, 4}, values.dtype, queue),
                 phases = context.empty({batch, pairs}, a.dtype, queue);
    copy(queue, a, w);
    launch(queue, kernel(queue, "jacobi_hermitian", a.dtype),
           Range::groups(static_cast<std::size_t>(batch), linalg_team(queue.device())), w, v, turns, phases, cl_int(n),
           cl_int(most_sweeps), AccScalar{epsilon_of(values.dtype), values.dtype});
    queue.launch(kernel(queue, "rayleigh_quotients", a.dtype), Range::linear(items, 16), a, v, quotients, cl_int(n),
                 items);
    const Tensor sorted = vectors.defined() ? vectors : context.empty(a.shape, a.dtype, queue);
    queue.launch(kernel(queue, "sort_columns", a.dtype), Range::linear(items, 16), w, v, quotients, NoTensor{}, sorted,
                 values, cl_int(n), cl_int(n), cl_int(1), items);
}

}  // namespace clprim
