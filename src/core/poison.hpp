// CLPRIM_POISON=1: what no one has written holds NaN (as an integer -1), so that a kernel that counts on fresh memory
// gives itself away. For tests.
#pragma once

#include <clprim/queue.hpp>

namespace clprim::detail {

// What CLPRIM_POISON asks for, read once.
CLPRIM_API bool poisons_blocks();   // 1 or blocks; zeros in a dry run
bool poisons_local_memory();        // 1

void poison(Queue& queue, Block& block);                      // a block that was just allocated
void poison_local_memory(Queue& queue, const Kernel& next);   // if the kernel launched next, its arguments set,
                                                              // uses any

}  // namespace clprim::detail
