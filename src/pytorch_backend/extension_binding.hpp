// What C++ extensions call (include/torch_ocl/extension.hpp), as a capsule of the module.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_ocl {

void bind_extension(pybind11::module_& m);

}  // namespace torch_ocl
