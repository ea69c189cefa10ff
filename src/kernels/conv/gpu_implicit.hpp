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
// Where k lies (gpu_tables.cl), with zeros behind the end for the longest slab; undefined for a single tap, whose
// kernels need none, unless the zeros are wanted.
Tensor tap_table(Queue& queue, DataType dtype, const gpu_conv_problem& p, bool want_zeros = false);

}  // namespace clprim::conv
