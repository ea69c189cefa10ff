// How fast a GPU is in the large, for choices between launches of one result.
#pragma once

#include <cstdint>

#include <clprim/device.hpp>

namespace clprim::detail {

// By an extension of its drivers: a vector engine's registers hold as many threads as there may be.
CLPRIM_API bool is_intel(const Device& device);

// About how many work-items a GPU holds at once: with fewer it waits for memory.
CLPRIM_API std::int64_t resident_items(const Device& device);

// Of a vector engine, a SIMD unit: a core of NVIDIA or AMD has four, one of Intel eight or sixteen.
// All is in clocks, so that a device's frequency does not matter; figures are those of vendors' documents, by family.
struct GpuRate {
    double cores;      // that work-groups run on
    double engines;    // of all cores
    double products;   // FMAs of float32 in a clock
    double matrix;     // those of its matrix engine, float16
    double bytes;      // of memory, its share of the device's
};

// By vendor, extensions and matrix engine; an unknown device is taken for a small one of few bytes.
CLPRIM_API GpuRate gpu_rate(const Device& device);

struct Workload {
    double groups;           // work-groups
    double engines, clocks;  // that one keeps busy, and for how long at full speed
    double sub_groups = 1;   // that it has on each engine
    bool streams = false;    // memory is what all wait for: the last groups to run have more of it
    // Where it is known: for how long one waits by itself, which others on its core may use, of which there is room for
    // `resident`. Then `clocks` are those that it takes beside others.
    double waits = 0, resident = 2;
    double around = 0;   // clocks that one takes to begin and to end, beside those that all take
};

CLPRIM_API double launch_clocks(const GpuRate& rate, const Workload& work);

// Clocks of adding `parts` results of `elements` floats each, which one launch writes and another one reads.
double parts_clocks(const GpuRate& rate, double parts, double elements);

// A launch that waits for the one before it.
constexpr double clocks_between_launches = 8000;

struct Parts {
    std::int64_t count;
    double clocks;
};

// Into how many parts, `most` at most, to cut a launch (launch_clocks) each of whose parts makes `elements` partial
// results. `added_anyway`: a single part's results go through the launch that adds them as well.
CLPRIM_API Parts best_parts(const GpuRate& rate, const Workload& work, double elements, std::int64_t most,
                            bool added_anyway);

}  // namespace clprim::detail
