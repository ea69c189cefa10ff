// Discrete Fourier transforms of any length.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// output[line, k] = scale * sum over j of input[line, j] exp(-+ 2 pi i j k / n), + for the inverse, which divides by n
// only if `scale` says so.
// Contiguous tensors [lines, n] of complex64 or complex128 that do not overlap, or [outer, n, inner] along the middle
// axis.
//
// Method: the self-sorting algorithm of Stockham (Cochran et al., "What is the fast Fourier transform?", 1967), within
// fast memory for lines of up to 4,096 elements (as many as local memory holds on a GPU) of primes up to 13, in two
// launches for products of two such lengths (Bailey, 1990). On CPUs vectors hold neighbours of a line, or one element
// of 16 lines. Lengths with primes beyond 31 are a convolution (Bluestein, 1970). Others take a launch for each factor.
// Roots of unity come from tables computed in double.
// Throws InvalidArgument for tensors that do not fit, NotSupported for complex128 on a device without float64.
void fft(Queue& queue, const Tensor& input, bool inverse, const Tensor& output, double scale = 1);

// Whether lines of n real numbers (float32, float64) are transformed as such: even ones.
bool takes_real_lines(Queue& queue, DataType dtype, std::int64_t n);

// The first n / 2 + 1 terms of the transform of n real numbers, and back from them, where the imaginary parts of the
// first and the last count for nothing. Contiguous tensors [lines, n] and [lines, n / 2 + 1] (complex64 or complex128)
// that do not overlap. Throws InvalidArgument for tensors that do not fit, NotSupported unless takes_real_lines.
void rfft(Queue& queue, const Tensor& input, const Tensor& output, double scale = 1);
void irfft(Queue& queue, const Tensor& input, const Tensor& output, double scale = 1);

}  // namespace clprim
CLPRIM_API_END
