// Where the taps of implicit products for GPUs lie: tables on the device, made once for a shape.
#pragma once

#include <kernels/conv/gpu_implicit.hpp>

namespace clprim::conv {

// For each k four numbers: its element relative to tap 0 of channel 0, and steps along d, h, w; behind the last k zeros
// for a slab that reaches over it.
Tensor tap_table(Queue& queue, const gpu_conv_problem& p);

// Of gpu_matrix_gather.cl, for eight k after the other: bytes from tap 0 of channel 0, and the tap's bits on inner axes
// (with `planes` on all); then zeros, `behind` entries.
Tensor matrix_table(Queue& queue, const gpu_conv_problem& p, bool planes, int behind);

}  // namespace clprim::conv
