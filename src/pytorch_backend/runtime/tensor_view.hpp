// How PyTorch's tensors and clprim's see each other.
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/context.hpp>

namespace torch_ocl {

clprim::DataType data_type(at::ScalarType type);          // throws TORCH_CHECK_NOT_IMPLEMENTED for quantized types etc.
at::ScalarType scalar_type(clprim::DataType type);

// The tensor as clprim sees it: same memory, no reference counted (valid while `tensor` lives).
clprim::Tensor view(const at::Tensor& tensor);
// An absent or undefined tensor gives an undefined clprim::Tensor.
clprim::Tensor view(const std::optional<at::Tensor>& tensor);

// The same for code that only moves bytes: allows float64 on a device without it.
clprim::Tensor storage_view(const at::Tensor& tensor);

// The current queue (PyTorch: stream) of this thread on a device, or on the device of a tensor.
clprim::Queue& current_queue(c10::Device device);
clprim::Queue& current_queue(const at::Tensor& tensor);

// at::empty on the device, for operators written by hand.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                 std::optional<at::MemoryFormat> format = std::nullopt);

// Samples of `rank` spatial dimensions: one without a batch, [channels, ...], gets a batch of one.
inline at::Tensor batched(const at::Tensor& t, int rank) { return t.dim() == rank + 1 ? t.unsqueeze(0) : t; }

}  // namespace torch_ocl
