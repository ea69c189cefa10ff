// Probabilities of classes from those of pairs of classes.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// pairs [rows, k (k - 1) / 2]: for the pairs (0, 1), (0, 2), ... (1, 2), ... how probable the first class is, given
// that it is one of the two; in (0, 1). classes [rows, k]: p that minimises the sum over i != j of
// (r_ji p_i - r_ij p_j)^2, sum p = 1, by the fixed-point iteration of Wu, Lin, Weng, "Probability estimates for
// multi-class classification by pairwise coupling", JMLR 5 (2004), algorithm 2, until 0.005 / k or for max(100, k)
// steps. Contiguous float32, k >= 2. Throws InvalidArgument otherwise.
void couple_pairs(Queue& queue, const Tensor& pairs, const Tensor& classes);

}  // namespace clprim
CLPRIM_API_END
