// Some of a device's compute units, as a device of its own.
#pragma once

#include <clprim/device.hpp>

namespace clprim::detail {

// Throws NotSupported where the driver does not divide the device so.
Device part_of(const Device& device, unsigned units, int index);

}  // namespace clprim::detail
