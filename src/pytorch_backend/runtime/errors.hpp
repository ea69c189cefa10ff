// clprim's exceptions as PyTorch's. OutOfMemory reaches Python as torch.OutOfMemoryError and IndexError as IndexError,
// or as RuntimeError where PyTorch's CPU raises that, from wherever they come (clprim's error hook). The other types
// reach it as RuntimeError; translate_errors makes NotSupported a NotImplementedError where that matters.
#pragma once

#include <utility>

#include <c10/util/Exception.h>
#include <clprim/error.hpp>

namespace torch_ocl {

// Rethrows the exception being handled as one of PyTorch's.
[[noreturn]] void rethrow_translated();

template <class Function>
decltype(auto) translate_errors(Function&& function)
{
    try {
        return std::forward<Function>(function)();
    }
    catch (const clprim::Error&) {
        rethrow_translated();
    }
}

}  // namespace torch_ocl
