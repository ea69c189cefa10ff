// Few rows times weights of four bits by vectors of x86 processors.
#pragma once

#include <clprim/quantized.hpp>

namespace clprim::detail {

// Launches cpu_int4.cl where the device has the instructions and the kernel takes such weights and that many rows.
// Whether it did; operands were checked before.
bool cpu_int4(Queue& queue, const Tensor& x, const QuantizedWeights& weights, const Tensor& y, Inputs inputs);

}  // namespace clprim::detail
