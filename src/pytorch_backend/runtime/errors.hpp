// clprim's exceptions as PyTorch's, for the places where a failure must reach Python as its own type:
// OutOfMemory -> torch.OutOfMemoryError, IndexError -> IndexError, NotSupported -> NotImplementedError, others ->
// RuntimeError.
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
