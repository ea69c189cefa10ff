// How much work fills a device.
#pragma once

#include <cstdint>

#include <clprim/device.hpp>

namespace clprim::detail {

// About how many work-items a GPU holds at once: with fewer it waits for memory.
inline std::int64_t resident_items(const Device& device)
{
    // Intel counts vector engines, of eight threads with sixteen lanes each, others what a work-group runs on.
    const bool engines = device.has_extension("cl_intel_required_subgroup_size");
    const bool large = device.vendor.starts_with("NVIDIA") || device.vendor.starts_with("Advanced Micro Devices") ||
                       device.vendor.starts_with("AMD");
    return std::int64_t{device.compute_units} * (engines ? 128 : large ? 2048 : 1024);
}

}  // namespace clprim::detail
