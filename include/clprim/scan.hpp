// Cumulative operators along one axis.
//
// Many lines: one work-item walks each. Few long lines: totals of about sqrt(n) chunks, a walk over the totals, then
// each chunk again from its carry. How a line is cut depends only on shapes, so results are the same on every device
// kind and in every run. float32 (and narrower) sums carry a compensation (Neumaier 1974).
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class Scan { sum, product, log_sum_exp };

// out[i] = combination of input[0..i]; equal shapes, any strides; equal dtypes, or the input's integers (or booleans)
// become those of the output first.
void cumulative(Queue& queue, const Tensor& input, std::size_t axis, Scan scan, const Tensor& out);

// values[i] = the largest (smallest) of input[0..i], indices[i] = where it last stood (int64). NaN wins and stays.
void cumulative_extreme(Queue& queue, const Tensor& input, std::size_t axis, bool largest, const Tensor& values,
                        const Tensor& indices);

// Positions of the elements that are not zero, in row-major order of a contiguous input. `count` finds how many (the
// device writes it to totals.back()); `write` stores their coordinates into coordinates[how many][dims], any strides.
struct NonzeroCounts {
    Tensor totals;          // int64, inclusive sums over chunks
    std::int64_t chunk = 0;
};
NonzeroCounts nonzero_count(Queue& queue, const Tensor& input);
void nonzero_write(Queue& queue, const Tensor& input, const NonzeroCounts& counts, const Tensor& coordinates);

}  // namespace clprim
CLPRIM_API_END
