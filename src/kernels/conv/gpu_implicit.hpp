// What the implicit products for GPUs share on the host side.
#pragma once

#include <kernels/conv/implicit.hpp>

namespace clprim::conv {

#include <kernels/conv/gpu_problem.cl>

gpu_conv_problem gpu_problem(const ImplicitProblem& p);
// Whether no tap of any position lies outside the source.
bool always_inside(const ImplicitProblem& p);
// Whether the first axis is more than 1, or shifted.
bool has_planes(const ImplicitProblem& p);
const Program& weights_program(Queue& queue, DataType dtype);   // gpu_weights.cl
// The weights as [group, row][k] for one launch: in place where they lie so, else a copy.
Tensor weight_rows(Queue& queue, const Call& call, const ImplicitProblem& p);
// Clocks of a forward or data pass by gpu_implicit, whose steps are one.
double gpu_implicit_clocks(const Call& call, const Device& device);
// The same of a weight gradient.
double gpu_implicit_weight_clocks(const Call& call, const Device& device);

}  // namespace clprim::conv
