// For hosts with exception types of their own (PyTorch): a function that sees an error before it is thrown.
#pragma once

#include <clprim/error.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Called with every OutOfMemory and IndexError, and with NotSupported for a dtype that a function has no kernel for,
// which can come from the depths of any operator. It may throw an
// exception of the host's own in its place; if it returns, the error itself is thrown. One per process; null for none.
using ErrorHook = void (*)(const Error& error);
void set_error_hook(ErrorHook hook) noexcept;

// While one lives, errors of its thread are clprim's own: for another binding in the same process.
class OwnErrors {
public:
    OwnErrors() noexcept;
    ~OwnErrors();
    OwnErrors(const OwnErrors&) = delete;
    OwnErrors& operator=(const OwnErrors&) = delete;
};

namespace detail {
void call_error_hook(const Error& error);

template <class E>
[[noreturn]] void raise(const E& error)
{
    call_error_hook(error);
    throw error;
}

// Throws NotSupported, by way of the hook, unless the operands' dtypes are ones that a function has a kernel for.
template <class... Parts>
void require_dtype(bool condition, const Parts&... parts)
{
    if (!condition) [[unlikely]]
        raise(NotSupported(concat(parts...)));
}
}  // namespace detail

}  // namespace clprim
CLPRIM_API_END
