// What the parts of this family share.
#pragma once

#include <clprim/linalg.hpp>

#include "kernels/team.hpp"

namespace clprim::detail {

// layout_t of columns.cl
struct MatrixStrides {
    cl_long row, column, batch;
};

inline MatrixStrides strides_of(const Tensor& t) { return {t.stride(1), t.stride(2), t.stride(0)}; }

inline DataType real_type(DataType type)
{
    return type == DataType::complex64 ? DataType::float32 : type == DataType::complex128 ? DataType::float64 : type;
}

void check_matrices(const Tensor& a, const char* name);                          // three dimensions, a known dtype
void check_dense(const Tensor& t, const Dims& shape, DataType dtype, const char* what);

// Work-items that share a matrix: a SIMD register's worth on a CPU.
std::size_t linalg_team(const Device& device);
std::string linalg_options(DataType dtype, std::size_t team);
std::string cpu_options(DataType dtype);   // of kernels whose work-items own matrices, with the name of real elements
Kernel& linalg_kernel(Queue& queue, const char* file, const char* name, DataType dtype);
// A work-item for each column of each matrix.
Range over_columns(const Queue& queue, std::int64_t columns, std::int64_t batch);

inline constexpr std::int64_t linalg_block = 64;   // columns of a panel, beyond which products of matrices take over

// jacobi_eigh by way of a tridiagonal matrix, on CPUs; values alone without `vectors`.
bool takes_tridiagonal(const Device& device);
void tridiagonal_eigh(Queue& queue, const Tensor& a, const Tensor& vectors, const Tensor& values);

inline Tensor block(const Tensor& a, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right)
{
    return a.slice(1, top, bottom).slice(2, left, right);
}

// A copy with conjugated elements; the tensor itself where it is real.
Tensor conjugated(Queue& queue, const Tensor& a);

// c -= a b, of views
void subtract_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c);

}  // namespace clprim::detail
