// What Inductor's code generator in Python asks of C++.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_ocl {

// Makes the C functions of <torch_ocl/inductor.h> and of the operators' shims visible to libraries opened from now on.
void share_symbols();

void bind_inductor(pybind11::module_& m);

}  // namespace torch_ocl
