// Counts of what the host has waited for (clprim::blocking_calls).
#pragma once

namespace clprim::detail {

void count_blocking_call();

// A transfer that waits, where nobody asked for a wait by name: the hook for such is told.
void count_blocking_transfer(const char* what);

}  // namespace clprim::detail
