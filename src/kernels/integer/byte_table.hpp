// Functions of one byte by a table of all of them, on CPUs.
#pragma once

#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

namespace clprim::detail {

// Whether a table is worth it for so many elements, beside arithmetic of some operators.
bool byte_table_pays(const Device& device, std::int64_t elements);

// y[i] = table[x[i]]: bytes of any sign that lie alike and dense, the table's 256 in the order of x's bits.
CLPRIM_API void look_up_bytes(Queue& queue, const Tensor& x, const Tensor& table, const Tensor& y);

}  // namespace clprim::detail
