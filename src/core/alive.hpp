// What a moved-from object of the public interface still answers: an error, not a crash.
#pragma once

#include <clprim/error.hpp>

namespace clprim::detail {

template <class Pointer>
auto& alive(const Pointer& state, const char* what)
{
    require(static_cast<bool>(state), what, " was moved from and holds nothing");
    return *state;
}

}  // namespace clprim::detail
