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
const Program& tables_program(Queue& queue, DataType dtype);   // gpu_tables.cl

}  // namespace clprim::conv
