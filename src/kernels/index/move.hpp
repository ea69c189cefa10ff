// Plain strided copies of bytes between tensors of one shape and dtype.
#pragma once

#include <clprim/queue.hpp>

namespace clprim {

namespace detail {

// An unsigned type of that many bytes: moves look only at bytes.
struct RawType {
    DataType dtype;
    const char* name;
};
RawType raw_type(std::size_t bytes);

}  // namespace detail

// out[p] = source[p] for every position p. Moves up to 16 bytes at a time where alignment lets it.
void move_elements(Queue& queue, const Tensor& out, const Tensor& source);

}  // namespace clprim
