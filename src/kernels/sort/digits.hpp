// Long rows on GPUs, sorted by the digits of their elements (digits.cl).
#pragma once

#include <cstdint>

#include <clprim/tensor.hpp>

namespace clprim {
class Queue;
class Device;
}

namespace clprim::detail {

struct Rows;

// Whether that is possible, and faster than merging.
bool suits_digits(const Device& device, const Rows& rows);
void sort_by_digits(Queue& queue, const Rows& rows);

struct SortedNumbers {
    Tensor numbers, order;   // int32: the numbers, ascending, and where each of them was
};

bool can_sort_numbers(const Device& device, std::int64_t count);
// numbers: contiguous int32 below `bound`, in one dimension, or -1, which comes last.
SortedNumbers sort_numbers(Queue& queue, const Tensor& numbers, std::int64_t bound);

}  // namespace clprim::detail
