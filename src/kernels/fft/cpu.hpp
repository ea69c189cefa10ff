// Fourier transforms by vectors of 16 on CPUs: neighbours of one line, or a line in each lane.
#pragma once

#include <string>
#include <vector>

#include <clprim/queue.hpp>

#include <kernels/fft/layout.hpp>

namespace clprim::detail {

// Whether lines of n complex numbers, one after the other, are transformed by vectors of neighbours: best where n has
// twos.
bool cpu_line(const Device& device, std::int64_t n);

// Whether lines of n are transformed 16 at a time, of `inner` that lie side by side or one after the other.
bool cpu_columns(const Device& device, std::int64_t n, std::int64_t inner, bool wide);

// n = first * second, of which cpu_columns takes both, or 0.
std::int64_t cpu_first_of_two(const Device& device, std::int64_t n, bool wide);

// x, y: [lines, n] of complex numbers, or one of them of 2 n real numbers and the other of their first n + 1 terms.
template <class R>
void transform_cpu_lines(Queue& queue, std::int64_t n, const Tensor& x, const Tensor& y, bool inverse, R scale);

template <class R>
void transform_cpu_columns(Queue& queue, std::int64_t n, const Tensor& x, const Tensor& y, const Lines& lines, R scale);

}  // namespace clprim::detail
