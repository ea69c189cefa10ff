#pragma once

#include <pybind11/pybind11.h>

namespace torch_ocl {

void bind_tuning(pybind11::module_& m);

}  // namespace torch_ocl
