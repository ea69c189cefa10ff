// Events across contexts. OpenCL lets a command wait only for events of its own context; between two drivers, or two
// contexts of one, a user event of the waiting context stands for the awaited event.
#pragma once

#include <clprim/context.hpp>

namespace clprim::detail {

bool same_context(cl_event event, cl_context context);

// A barrier in the queue that the event of another context lifts. The host waits only where a driver has no user events
// or no callbacks. Failed work lifts the barrier too, so that one device's failure does not stop another one for good.
void wait_across_contexts(const Queue& queue, const Event& event);

// Before the host waits: lifts every such barrier whose event has come, waiting for it, in case a driver does not call
// back (PoCL does not for failed events).
void settle_barriers() noexcept;

// Throws OpenCLError if work failed that the queue waited for in another context, once.
void throw_awaited_failure(const Queue& queue);

}  // namespace clprim::detail
