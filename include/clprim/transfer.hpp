// Copies between devices.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Where bytes lie on a device, and the queue that works on them.
struct Location {
    Queue& queue;
    Block& block;
    std::size_t offset = 0;   // bytes
};

// Copies bytes from one device to another, or within one, as work of both queues: after what was enqueued on either so
// far, before what follows on either. Never waits.
void copy_between(const Location& source, const Location& target, std::size_t bytes);

}  // namespace clprim
CLPRIM_API_END
