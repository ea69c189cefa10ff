// What an operator has computed, into the tensor that its caller gave for it.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

namespace torch_ocl {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using TwoOut = std::tuple<at::Tensor&, at::Tensor&>;
using ThreeOut = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;

// PyTorch refuses an `out` elsewhere; copying would hide that.
inline void check_output_device(const at::Tensor& out, c10::Device device)
{
    TORCH_CHECK(out.device() == device, "Expected all tensors to be on the same device, but found out on ",
                out.device(), " and the result on ", device);
}

inline at::Tensor& assign_output(at::Tensor& out, const at::Tensor& value)
{
    check_output_device(out, value.device());
    at::native::resize_output(out, value.sizes());
    return out.copy_(value);
}

}  // namespace torch_ocl
