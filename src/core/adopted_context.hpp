// The part of use_context (clprim/interop.hpp) that the registry of contexts does.
#pragma once

#include <vector>

#include <clprim/context.hpp>

namespace clprim::detail {

// From now on contexts of these devices are made with `context`. Throws InvalidArgument if there is one already, or if
// clprim knows none of the devices.
void adopt_context(const cl::Context& context, const std::vector<cl_device_id>& ids);

}  // namespace clprim::detail
