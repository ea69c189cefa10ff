// torch_ocl._C's functions for torch.distributed.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_ocl {

void bind_distributed(pybind11::module_& m);

}  // namespace torch_ocl
