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

// As jacobi_svd returns them.
struct Svd {
    Tensor columns, vectors, values;
};

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

// z = x y
void multiply(Queue& queue, const Tensor& x, const Tensor& y, const Tensor& z)
{
    gemm(queue, gemm_problem(x, y, z), x, y, z);
}

// The eigenvectors of A^H A, as rows of v, by columns [batch, n, m] of A that lie as rows; their values are not kept.
void gram_vectors(Queue& queue, const Tensor& columns, const Tensor& v)
{
    const std::int64_t batch = columns.size(0), n = columns.size(1);
    const Tensor gram = queue.context().empty({batch, n, n}, columns.dtype, queue),
                 squares = queue.context().empty({batch, n}, real_type(columns.dtype), queue);
    multiply(queue, columns, conjugated(queue, columns).transpose(1, 2), gram);
    tridiagonal_eigh(queue, gram, v, squares);
}

void sort_by_norm(Queue& queue, const Tensor& w, const Tensor& v, const Svd& sorted)
{
    const auto items = static_cast<cl_ulong>(w.size(0) * w.size(1));
    const auto m = static_cast<cl_int>(w.size(2)), n = static_cast<cl_int>(w.size(1));
    const Tensor norms = queue.context().empty(sorted.values.shape, sorted.values.dtype, queue);
    queue.launch(kernel(queue, "column_norms", w.dtype), Range::linear(items, 16), w, norms, m, items);
    queue.launch(kernel(queue, "sort_columns", w.dtype), Range::linear(items, 16), w, v, norms, sorted.columns,
                 sorted.vectors, sorted.values, m, n, cl_int(0), items);
}

// Singular values of single precision on CPUs with float64, by the eigenvalues of A^H A, whose squares lose no digit
// that float32 has: what is wrong with values stays below 1e-8 of the largest.
void gram_svd(Queue& queue, const Svd& result)
{
    const DataType wide = is_complex(result.columns.dtype) ? DataType::complex128 : DataType::float64;
    const auto empty = [&](const Tensor& like, DataType dtype) {
        return queue.context().empty(like.shape, dtype, queue);
    };
    const Tensor a = empty(result.columns, wide), v = empty(result.vectors, wide), w = empty(result.columns, wide);
    const Svd sorted{empty(result.columns, wide), empty(result.vectors, wide),
                     empty(result.values, DataType::float64)};
    copy(queue, result.columns, a);
    gram_vectors(queue, a, v);
    multiply(queue, v, a, w);   // U S: their norms are more exact than roots of the eigenvalues
    sort_by_norm(queue, w, v, sorted);
    copy(queue, sorted.columns, result.columns);
    copy(queue, sorted.vectors, result.vectors);
    copy(queue, sorted.values, result.values);
}

// On CPUs: the eigenvectors of A^H A turn columns nearly orthogonal, so that few sweeps of rotations are left to do.
void prepared_svd(Queue& queue, const Svd& result)
{
    const Tensor& columns = result.columns;
    const std::int64_t batch = columns.size(0), n = columns.size(1), m = columns.size(2);
    const DataType real = real_type(columns.dtype);
    const auto empty = [&](const Dims& shape, DataType dtype) { return queue.context().empty(shape, dtype, queue); };
    const Tensor a = empty(columns.shape, columns.dtype), first = empty({batch, n, n}, columns.dtype),
                 w = empty(columns.shape, columns.dtype), v = empty({batch, n, n}, columns.dtype),
                 turned = empty({batch, n, n}, columns.dtype), norms = empty({batch, n}, real),
                 exponents = empty({batch}, DataType::int32);
    const Program& program = queue.context().program("kernels/linalg/cpu_jacobi.cl", cpu_options(columns.dtype));
    const Range each = Range::groups(static_cast<std::size_t>(batch));
    const auto elements = static_cast<cl_ulong>(n * m);
    copy(queue, columns, a);
    queue.launch(program.kernel("normalise"), each, a, exponents, elements);
    gram_vectors(queue, a, first);
    multiply(queue, first, a, w);
    launch(queue, program.kernel("jacobi"), each, w, v, norms, cl_int(m), cl_int(n), cl_int(most_sweeps),
           AccScalar{epsilon_of(real) * std::sqrt(static_cast<double>(m)), real},
           AccScalar{smallest_normal(real) / epsilon_of(real), real});
    multiply(queue, v, first, turned);
    sort_by_norm(queue, w, turned, result);
    queue.launch(program.kernel("restore"), each, columns, result.values, exponents, elements, cl_ulong(n));
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
    const Svd result{columns, vectors, values};
    if (real_type(columns.dtype) == DataType::float32 && queue.device().fp64 && takes_tridiagonal(queue.device()))
        return gram_svd(queue, result);
    if (takes_tridiagonal(queue.device()))
        return prepared_svd(queue, result);
    const Tensor w = queue.context().empty(columns.shape, columns.dtype, queue);
    const Tensor v = queue.context().empty(vectors.shape, columns.dtype, queue);
    copy(queue, columns, w);
    turn(queue, w, v);
    sort_by_norm(queue, w, v, result);
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
    if (takes_tridiagonal(queue.device()))
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
