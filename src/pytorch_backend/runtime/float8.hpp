// Numbers of eight bits. clprim moves them as bytes and computes with them as float32, as PyTorch does.
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/float8.hpp>

namespace torch_ocl {

inline bool is_float8(const at::TensorBase& tensor) { return c10::isFloat8Type(tensor.scalar_type()); }

clprim::Float8 format_of(at::ScalarType type);   // throws for others
at::Tensor float8_to_float(const at::Tensor& codes);                          // dense
void float_to_float8(const at::Tensor& numbers, const at::Tensor& codes);     // any strides, one shape

}  // namespace torch_ocl
