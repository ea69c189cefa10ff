// What a process owes its drivers when it ends.
#pragma once

#include <clprim/device.hpp>

namespace clprim::detail {

// Called when a kernel is made. PoCL compiles kernels on threads of its own when they are launched, by an LLVM whose
// static data is made on the way and goes at exit, latest first: so work is waited for before what is there now goes.
void wait_at_exit_before_drivers(const Device& device);

}  // namespace clprim::detail
