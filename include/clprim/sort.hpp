// Sorting along one axis.
//
// Every sort is stable, and NaN counts as greater than any number (so it comes last, or first when descending); -0.0
// and 0.0 are equal. Elements become items: order-preserving integers with the position below them, so that comparing
// items is comparing integers and no two are equal. Tiles of 1024 items are sorted by a bitonic network in local memory
// (Batcher 1968); longer rows merge sorted runs, each work-item a chunk that it finds by a search along its diagonal
// (merge path: Green, McColl, Bader, ICS 2012), and long ones are sorted digit by digit, from the lowest on.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// values, indices = input sorted along `axis`; one shape, any strides. indices are int64. Real dtypes, fewer than
// 2^32 - 1 elements along the axis.
void sort(Queue& queue, const Tensor& input, std::size_t axis, bool descending, const Tensor& values,
          const Tensor& indices);

// The first elements of the sorted order only: as many as values and indices have along `axis`.
void topk(Queue& queue, const Tensor& input, std::size_t axis, bool largest, const Tensor& values,
          const Tensor& indices);

// The most frequent value of each sorted row and where it came from: `sorted` and `order` are what sort gave, with rows
// along the last axis and contiguous; values and indices have one element per row. Of several, the smallest value wins.
void mode(Queue& queue, const Tensor& sorted, const Tensor& order, const Tensor& values, const Tensor& indices);

// out = where each value would go into its sorted row of boundaries, before equal ones (right: after them). Contiguous;
// boundaries [n] for all values, or [..., n] with values [..., m] row by row. `sorter` (int64, or undefined) holds the
// order in which boundaries are sorted. out is int32 or int64.
struct SearchSorted {
    Tensor boundaries, sorter;
    bool right = false;
};
void searchsorted(Queue& queue, const SearchSorted& search, const Tensor& values, const Tensor& out);

// out = which of so many bins of equal width from low to high each value falls into; the last has its right edge, too.
// What lies outside, and NaN, gets the number behind the last. values: a floating point dtype; out: int64, of their
// shape; both contiguous. low and high are finite, low < high. As PyTorch's histc computes it,
// (v - low) * count / (high - low).
struct Bins {
    double low, high;
    std::int64_t count;
};
void histogram_bins(Queue& queue, const Tensor& values, const Bins& bins, const Tensor& out);

// Adds to each of counts [bins] (int32) how many of the places (int64, contiguous, fewer than 2^31) are its index.
// Those out of range are left out.
void count_places(Queue& queue, const Tensor& places, const Tensor& counts);

// out = position i as often as `ends` grows there: positions from ends[i - 1] (0 for the first) to before ends[i] hold
// i. Contiguous vectors of int32 or int64; ends do not fall, and the last is the length of out: of others something
// of out is left as it was.
void repeat_positions(Queue& queue, const Tensor& ends, const Tensor& out);

}  // namespace clprim
CLPRIM_API_END
