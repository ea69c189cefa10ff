// torch_ocl._C.Kernel: a kernel from a caller's text, launched from Python. What python/torch_ocl/user_kernel.py gives
// to people and python/torch_ocl/inductor to generated code.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_ocl {

void bind_kernel(pybind11::module_& m);

}  // namespace torch_ocl
