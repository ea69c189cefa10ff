// Python's side of the allocator beyond PyTorch's interfaces: history, pools, raw blocks, limits, waits.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_ocl {

void bind_memory(pybind11::module_& m);
void bind_memory_history(pybind11::module_& m);   // runtime/memory_history.cpp
void bind_graph(pybind11::module_& m);            // runtime/graph.cpp

}  // namespace torch_ocl
