// Plain strided copies of bytes between tensors of one shape and dtype.
#pragma once

#include <clprim/queue.hpp>

namespace clprim {

// out[p] = source[p] for every position p. Moves up to 16 bytes at a time where alignment lets it.
void move_elements(Queue& queue, const Tensor& out, const Tensor& source);

}  // namespace clprim
