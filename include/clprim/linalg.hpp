// Dense linear algebra of batches of matrices.
//
// Tensors are [batch, rows, columns] of float32, float64, complex64 or complex128, contiguous where nothing else is
// said; factorisations overwrite their matrix. Pivots and info are int32. A work-group owns a matrix, or a panel of it;
// what is left of large matrices is updated by products of matrices (gemm.hpp). Nothing waits, and the same bits come
// out every run. All throw InvalidArgument for shapes, layouts or dtypes that do not fit.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// A = P L U with partial pivoting: L (unit lower) and U (upper) take the place of A [batch, m, n]. Row i was exchanged
// with row pivots[i] - 1, for i = 0, 1, ... [batch, min(m, n)]. info [batch]: 0, or the first i + 1 whose pivot is 0.
// pivot = false: rows stay where they are.
void lu_factor(Queue& queue, const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivot = true);

// The same of x into `a`, which may be x itself: both of any strides.
void lu_factor(Queue& queue, const Tensor& x, const Tensor& a, const Tensor& pivots, const Tensor& info,
               bool pivot = true);

// Exchanges rows of b [batch, m, n] as lu_factor did, or in the opposite order, which takes that back.
void exchange_rows(Queue& queue, const Tensor& b, const Tensor& pivots, bool opposite);

// Solves A X = B, or A^H X = B, for X [batch, n, k] from lu_factor's result. Without b (an undefined tensor) B is the
// unit matrix. lu, b and x may have any strides; x may be b itself, which it is where only b is given.
void lu_solve(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, bool adjoint);
void lu_solve(Queue& queue, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool adjoint = false);

// A = L L^H of a Hermitian positive definite A [batch, n, n], of which the lower triangle is read and overwritten; the
// upper one is left as it is. info [batch]: 0, or the order of the leading minor that is not positive definite.
void cholesky(Queue& queue, const Tensor& a, const Tensor& info);

// The same of x, whose lower triangle is read, into `a`, which may be x itself: both of any strides, and the upper
// triangle becomes zero.
void cholesky(Queue& queue, const Tensor& x, const Tensor& a, const Tensor& info);

// Solves L L^H X = B or, if `upper`, U^H U X = B for X [batch, n, k] with a triangular factor [batch, n, n], of which
// the other triangle is not read. Without b (an undefined tensor) B is the unit matrix. All may have any strides; x may
// be b itself.
void cholesky_solve(Queue& queue, const Tensor& factor, bool upper, const Tensor& b, const Tensor& x);

// A = P L D L^T P^T of symmetric matrices, L D L^H of Hermitian ones, a [batch, n, n], definite or not, of which the
// lower triangle is read and overwritten by L and D, as LAPACK's sytrf and hetrf do. D has blocks of order 1 and 2:
// pivots [batch, n] holds i + 1 of the row and column exchanged with this one, or twice -(i + 1) for a block of
// order 2. info [batch]: 0, or the first i + 1 at which D is singular. Method: Bunch and Kaufman.
void ldl_factor(Queue& queue, const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian);

// Solves A X = B in place of B [batch, n, k], from ldl_factor's result.
void ldl_solve(Queue& queue, const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian);

// Solves A X = B with a triangular A [batch, n, n] for X [batch, n, k], which may be B itself, and is where only b is
// given. All may have any strides (a transposed A is upper where A is lower). The other triangle of A, and the diagonal
// if `unit`, are not read.
void triangular_solve(Queue& queue, const Tensor& a, bool upper, bool unit, const Tensor& b, const Tensor& x);
void triangular_solve(Queue& queue, const Tensor& a, bool upper, bool unit, const Tensor& b);

// A = Q R: R takes the upper triangle of A [batch, m, n], the reflectors' vectors what is below (LAPACK's geqrf).
// tau [batch, min(m, n)]. Method: Householder.
void qr_factor(Queue& queue, const Tensor& a, const Tensor& tau);

// C = Q C or Q^H C for C [batch, m, k] of any strides, from reflectors [batch, m, n] and tau [batch, r], r <= n.
void apply_reflectors(Queue& queue, const Tensor& reflectors, const Tensor& tau, const Tensor& c, bool adjoint);

// Singular values and vectors, by one-sided Jacobi rotations (Hestenes 1958), which find small values as exactly as
// large. columns [batch, n, m], n <= m, holds the columns of A as rows; it is overwritten by those of U S. vectors
// [batch, n, n] takes the columns of V as rows, values [batch, n] S, of the real dtype: all in descending order of
// values. On CPUs with float64 those of float32 and complex64 come from the eigenvalues of A^H A in double precision,
// values within 1e-8 of the largest; for the others its eigenvectors are where rotations begin.
void jacobi_svd(Queue& queue, const Tensor& columns, const Tensor& vectors, const Tensor& values);

// A = vectors^H diag(values) vectors of Hermitian matrices a [batch, n, n]: values [batch, n], of the real dtype, in
// ascending order, vectors [batch, n, n]. By two-sided Jacobi rotations (Jacobi 1846; Brent and Luk's order of pairs);
// values are Rayleigh quotients. On CPUs by way of a tridiagonal matrix (Householder; implicit QL). Without `vectors`
// (an undefined tensor) only values are found.
void jacobi_eigh(Queue& queue, const Tensor& a, const Tensor& vectors, const Tensor& values);

// A = V diag(values) V^-1 of any square matrices a [batch, n, n], which are overwritten: balancing, Householder's
// reduction to Hessenberg form, shifted QR and back substitution, in LAPACK's order of eigenvalues. values [batch, n]
// and vectors [batch, n, n], columns of norm 1 (those of complex eigenvalues with a real largest element), are complex;
// without `vectors` (an undefined tensor) they are not computed. info [batch]: 0, -1 where A is not finite, or how many
// eigenvalues did not converge and are NaN.
void eigen(Queue& queue, const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info);

}  // namespace clprim
CLPRIM_API_END
