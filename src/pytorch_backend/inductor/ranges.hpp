// Global and local ranges of the kernels that Inductor generates, for Python and C++ wrappers alike.
#pragma once

#include <clprim/device.hpp>
#include <clprim/queue.hpp>

#include <torch_ocl/inductor.h>

namespace torch_ocl {

// sizes: as many as the kind of range takes.
clprim::Range inductor_range(const clprim::Device& device, TorchOclRange kind, const std::int64_t* sizes);

}  // namespace torch_ocl
