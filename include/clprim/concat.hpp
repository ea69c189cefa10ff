// Concatenation.
#pragma once

#include <span>

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// out = the inputs one after another along `axis`. All have out's dtype and, save along `axis`, its shape; any strides.
// One launch per input; rows move 16 bytes at a time where alignment lets them.
void concat(Queue& queue, std::span<const Tensor> inputs, std::size_t axis, const Tensor& out);
inline void concat(Queue& queue, std::initializer_list<Tensor> inputs, std::size_t axis, const Tensor& out)
{
    concat(queue, std::span(inputs.begin(), inputs.size()), axis, out);
}

}  // namespace clprim
CLPRIM_API_END
