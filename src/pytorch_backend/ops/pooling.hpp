// What the registrations of pooling share.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <clprim/pool.hpp>

namespace torch_ocl {

// A window over `rank` spatial axes; a list of one value stands for all axes, an empty stride for the kernel's size.
clprim::PoolWindow sliding(int rank, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                           at::IntArrayRef dilation = {1});

// Writes maxima of windows to `out` and their positions to `indices`, which may be undefined.
void max_pool(int rank, const at::Tensor& self, const at::Tensor& out, const at::Tensor& indices,
              const clprim::PoolWindow& window);

// Checks a three-dimensional maximum's arguments as PyTorch does and gives the size of its output.
std::vector<int64_t> max_pool3d_size(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                     at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode);

// A three-dimensional result without strides of its own takes the layout of `like`, also of a sample without batch.
void restride(const at::Tensor& t, at::IntArrayRef size, const at::Tensor& like);

}  // namespace torch_ocl
