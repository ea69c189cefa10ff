// What the products for GPUs share: how a problem is turned, cut into work-groups and launched.
#pragma once

#include <core/gpu_rate.hpp>
#include <kernels/gemm/problem.hpp>

namespace clprim::detail {

// Vectors run along columns, so C should have its columns contiguous; few rows are better than few columns.
bool better_turned(const GemmProblem& problem);

// How a product is cut into work-groups: `x` and `y` count them for one part of k, of which there are `splits`.
struct GpuCut {
    std::int64_t x = 1, y = 1, splits = 1, split_depth = 0;
};

// `splits` parts of k, or as many as there are of a multiple of `step`.
GpuCut gpu_cut(const GemmProblem& problem, std::int64_t x, std::int64_t y, std::int64_t splits, std::int64_t step);

// How many there are at most.
std::int64_t most_splits(const GemmProblem& problem, std::int64_t step);

// How many parts of k, multiples of `step` long, take the least time for the work of uncut blocks.
Parts best_splits(const GpuRate& rate, const GemmProblem& problem, const Workload& work, std::int64_t step);

// Clocks of a product by gpu_tiled, by that estimate.
double gpu_tiled_clocks(const GemmProblem& problem, const Device& device);

// Runs the kernel `multiply` of (a, b, c, d, partial, problem, alpha, beta, splits, split_depth) on groups of
// `width` x `height` work-items, and sums the parts of k if there are several.
void launch_cut(Queue& queue, const Program& program, const GemmProblem& problem, const GemmTensors& tensors,
                const GpuCut& cut, std::array<std::size_t, 2> group);

// Whether groups of `count` neighbours along `near` lie at multiples of `count` elements.
bool in_groups(std::int64_t count, const Tensor& tensor, std::int64_t near_count, std::int64_t near, std::int64_t far,
               std::int64_t batch);

// Whether k is the direction in which neighbours of A and B are brought.
bool a_along_k(const GemmProblem& problem);
bool b_along_k(const GemmProblem& problem);
// in_groups of A and B in that direction.
bool a_in_groups(std::int64_t count, const GemmProblem& problem, const GemmTensors& tensors);
bool b_in_groups(std::int64_t count, const GemmProblem& problem, const GemmTensors& tensors);
bool operands_in_groups(std::int64_t count, const GemmProblem& problem, const GemmTensors& tensors);

// Whether they are contiguous there, and `count` elements from each one on lie in A's and B's buffers.
bool has_neighbours(std::int64_t count, const GemmProblem& problem, const GemmTensors& tensors);

// The integer type that holds every distance within a matrix, in elements: "int" or "long".
const char* offset_type(const GemmProblem& problem);
// The same in bytes. "uint" where it holds those from the beginning of the buffers on and none is negative: many GPUs
// add that to an address in one instruction.
const char* byte_offset_type(const GemmProblem& problem, const GemmTensors& tensors);

}  // namespace clprim::detail
