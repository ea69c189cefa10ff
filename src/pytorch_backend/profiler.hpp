// What torch.profiler and torch.ocl.profile_kernels learn of the device.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_ocl {

void bind_profiler(pybind11::module_& m);

}  // namespace torch_ocl
