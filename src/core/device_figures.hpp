// Figures of another device in place of those that the driver gives (CLPRIM_DEVICE_FIGURES): with a dry run it shows
// what the library would choose for a device that is not there.
#pragma once

#include <string_view>

#include <clprim/device.hpp>

namespace clprim::detail {

// Overwrites what `text` names, as in "vendor=AMD,compute_units=60,local_memory=65536,sub_group_sizes=32:64,fp64=1".
// Throws InvalidArgument that says what was expected; the device is then unchanged.
CLPRIM_API void apply_device_figures(Device& device, std::string_view text);

}  // namespace clprim::detail
