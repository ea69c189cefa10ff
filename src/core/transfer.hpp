// Staging buffers of copies between devices.
#pragma once

namespace clprim {

class Context;

namespace detail {

// Gives the staging buffers of copies from a device back that are not under way.
void release_idle_staging(const Context& context);

}  // namespace detail
}  // namespace clprim
