// Which elements of one tensor make up an element of another along each axis of a resampling, and with what weights.
#pragma once

#include <cstdint>
#include <vector>

#include <clprim/resample.hpp>

namespace clprim::detail {

// Place o of the owner is the sum over k < count[o] of weights[k][o] times the other's element first[o] + k, moved into
// the other's `size` elements. Both ends of these ranges never fall as o grows. Acc: float or double.
template <class Acc>
struct TapTable {
    int size = 1, taps = 1;             // elements of the other; rows of weights
    bool uneven = false;                // whether some count is not `taps`
    std::vector<cl_int> first{0}, count{1};
    std::vector<Acc> weights{1};        // [taps][places]

    int places() const { return static_cast<int>(first.size()); }
    int begin(int o) const;             // of the elements that place o reads, moved into the other
    int end(int o) const;
};

// The taps of an axis, whose places are `channels` neighbouring elements, by vectors of 16 elements for cpu_windows.cl:
// what each vector reads lies in at most `span` neighbours.
template <class Acc>
struct TapLanes {
    int span = 0;
    std::vector<cl_int> lanes;      // as the kernel finds them
    std::vector<Acc> weights;
};
template <class Acc>
TapLanes<Acc> tap_lanes(const TapTable<Acc>& table, int channels);

// Of y [out] from x [in], or of the gradient of x from that of y; `factor` as in Resampling::scale_factors. Coordinates
// and weights are computed in Acc in PyTorch's order (ATen/native/UpSample.h): rounding chooses the same elements.
template <class Acc>
TapTable<Acc> tap_table(const Resampling& how, std::int64_t in, std::int64_t out, double factor, bool backward);

}  // namespace clprim::detail
