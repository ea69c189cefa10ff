// Tensors made from positions: sequences, triangles, reversed axes.
#pragma once

#include <span>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// out[i] = start + i * step, for a one-dimensional out. Integers are exact; so are float64 values to their last bits,
// other floating-point types compute in float32 with one fused multiply-add.
void arange(Queue& queue, const Tensor& out, double start, double step);
void arange(Queue& queue, const Tensor& out, std::int64_t start, std::int64_t step);   // integral out

// n evenly spaced numbers from start to end, both included; the second half counts from the end, as PyTorch does.
void linspace(Queue& queue, const Tensor& out, double start, double end);

// The upper (j - i >= diagonal) or lower (j - i <= diagonal) triangle of matrices in the last two axes; zero elsewhere.
void triangle(Queue& queue, const Tensor& input, std::int64_t diagonal, bool upper, const Tensor& out);

// out = input with the order along some axes reversed.
void flip(Queue& queue, const Tensor& input, std::span<const std::int64_t> axes, const Tensor& out);

}  // namespace clprim
CLPRIM_API_END
