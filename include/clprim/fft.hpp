// Discrete Fourier transforms of any length.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// output[line, k] = scale * sum over j of input[line, j] exp(-+ 2 pi i j k / n), + for the inverse, which divides by n
// only if `scale` says so.
// Contiguous tensors [lines, n] of complex64 or complex128 that do not overlap.
//
// Method: the self-sorting algorithm of Stockham (Cochran et al., "What is the fast Fourier transform?", 1967) for any
// factors: n (f1 + f2 + ...) steps, n^2 for a prime. Roots of unity come from a table computed in double.
// Throws InvalidArgument for tensors that do not fit, NotSupported for complex128 on a device without float64.
void fft(Queue& queue, const Tensor& input, bool inverse, const Tensor& output, double scale = 1);

}  // namespace clprim
CLPRIM_API_END
