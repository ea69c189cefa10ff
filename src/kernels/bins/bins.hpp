// Numbers sorted into bins, for sums that may come in any number but must come out with the same bits every run: what
// adds to one place is found in that place's bin, in order, and nothing is added by two work-items.
#pragma once

#include <cstdint>

#include <clprim/tensor.hpp>

namespace clprim {
class Queue;
}

namespace clprim::detail {

struct Bins {
    Tensor begins;   // int32 [bins + 1]: where each bin begins in the list
    Tensor list;     // int32: the places of the numbers, bin by bin, ascending in each
};

// numbers: contiguous int32, each the bin of its place or negative for none. `list` has room for all of them.
Bins sort_into_bins(Queue& queue, const Tensor& numbers, std::int64_t bins);

}  // namespace clprim::detail
