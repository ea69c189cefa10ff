// Determinants of square matrices.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// y[b] = det(x[b]) for x [..., n, n], contiguous, and y [...], contiguous, of one floating-point dtype. By LU
// factors with partial pivoting (linalg.hpp), in float32 (float64 for float64). A matrix without rows has the
// determinant 1. Throws InvalidArgument.
void determinant(Queue& queue, const Tensor& x, const Tensor& y);

// y [batch] = determinants of the matrices whose factors lu [batch, n, n], of any strides, and pivots are lu_factor's.
void lu_determinant(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& y);

}  // namespace clprim
CLPRIM_API_END
