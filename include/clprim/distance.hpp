// Distances between points:  d(a, b) = (sum over m of |a_m - b_m|^p)^(1/p),  for p = 0 the number of elements that
// differ, for p = infinity the largest difference.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// y[n, i, j] = d(a[n, i], b[n, j]) for a [batch, rows, size], b [batch, columns, size] and y [batch, rows, columns].
// Contiguous floating-point tensors of one dtype; sums in float32 (float64 for float64). p >= 0.
// Throws InvalidArgument.
void pairwise_distances(Queue& queue, const Tensor& a, const Tensor& b, double p, const Tensor& y);

// grad_a = the sum over columns of grad_y times the derivative of d by a, where y is what pairwise_distances gave.
// Where a distance has no derivative (equal points) the term is 0. Each element is summed by its owner, in order.
struct DistanceBackward {
    Tensor a, b, y, grad_y, grad_a;
    double p = 2;
};
void pairwise_distances_backward(Queue& queue, const DistanceBackward& problem);

// Distances between the rows of x [n, size]: y [n (n - 1) / 2] of the pairs (0, 1), (0, 2), ... (1, 2), ...
void condensed_distances(Queue& queue, const Tensor& x, double p, const Tensor& y);
// The same fields, with a the rows, y and grad_y condensed; b is not used.
void condensed_distances_backward(Queue& queue, const DistanceBackward& problem);

}  // namespace clprim
CLPRIM_API_END
