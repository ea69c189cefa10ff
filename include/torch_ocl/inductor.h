/* What code of Inductor's C++ wrapper calls on the ocl device beside the operators (c_shim_ocl.h, written by
 * cmake/inductor_shims.py): kernels, their ranges, and memory for a package's constants. C functions with the error
 * codes of PyTorch's shims, so that a package need not be built with the compiler of torch_ocl. */
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

extern "C" {

struct TorchOclKernelOpaque;
using TorchOclKernel = TorchOclKernelOpaque*;

// A tensor or a number; which one, and of which type, the kernel's signature says.
struct TorchOclArgument {
    AtenTensorHandle tensor;
    std::int64_t integer;
    double real;
};

// How a range follows from sizes; see inductor/ranges.hpp.
enum TorchOclRange {
    TORCH_OCL_LINEAR,     // elements
    TORCH_OCL_ROWS,       // length of a row, rows
    TORCH_OCL_OUTPUTS,    // outputs of a reduction
    TORCH_OCL_GROUPS,     // outputs of a reduction, work-items for each
    TORCH_OCL_FIXED,      // three global sizes, three local ones
    TORCH_OCL_TILES,      // length of a row, rows, where some tensor's neighbours lie in neighbouring rows
    TORCH_OCL_ITEMS       // work-items, elements that each of them goes through
};

// A kernel of that text. signature: "t" for each tensor, types of numbers ("int64", "float32", ...), and "errors" last
// if the kernel reports bad indices, with spaces between them. It is never freed. Builds nothing yet.
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_new_kernel(const char* source, const char* name, const char* signature,
                                                      TorchOclKernel* kernel);

// Launches it on the current stream of a device.
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_launch(TorchOclKernel kernel, std::int32_t device, std::int32_t range,
                                                  const std::int64_t* sizes, const TorchOclArgument* arguments,
                                                  std::size_t count);

// Memory of the current device for constants: malloc's pointer stands for it and must not be followed; memcpy writes
// source + source_offset at target + target_offset; copy does so between two pieces of it.
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_malloc(void** memory, std::size_t bytes);
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_free(void* memory);
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_memcpy(void* target, std::size_t target_offset, std::size_t source_offset,
                                                  std::size_t bytes, std::uint8_t* source);
AOTI_TORCH_EXPORT AOTITorchError torch_ocl_copy(void* source, void* target, std::size_t bytes,
                                                std::size_t source_offset, std::size_t target_offset);

}  // extern "C"
