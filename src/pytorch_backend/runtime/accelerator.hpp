// This device beside one that PyTorch brings itself.
#pragma once

namespace torch_ocl {

// PyTorch has one accelerator (at::getAccelerator), and a device from outside is it wherever one is registered. Its
// autograd engine then finds no streams for the nodes of CUDA, ROCm and XPU and fails an assertion in every backward
// pass on them (pytorch/pytorch#161129). From this call on PyTorch's own device stays the accelerator until a device
// of this module is first used, so that programs that never use one are not disturbed. False where that cannot be done.
bool leave_accelerator_to_pytorch_until_used();

}  // namespace torch_ocl
