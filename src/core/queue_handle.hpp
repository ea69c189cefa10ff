// The command queue for the library's own commands, which count themselves: what Queue::handle() gives to others makes
// Queue::idle() ask the driver each time.
#pragma once

#include <clprim/queue.hpp>

namespace clprim::detail {

class QueueAccess {
public:
    static cl_command_queue handle(const Queue& queue) { return queue.handle_(); }
    // After a command that Queue's functions did not enqueue.
    static void count_command(Queue& queue) { queue.count_command(); }
    // Whether kernels since the last synchronisation may have recorded errors; returns what was believed before.
    static bool exchange_errors_expected(Queue& queue, bool expected)
    {
        return queue.errors_expected_.exchange(expected, std::memory_order_relaxed);
    }
    static void finish_commands(Queue& queue)
    {
        if (!queue.nothing_enqueued())
            queue.finish_commands();
    }
};

// Waits for the queue where its device's memory is the host's, so that the next write is a copy by the host and none is
// kept of its source. Does nothing elsewhere, and while a recording is made.
void settle_for_write(Queue& queue);

}  // namespace clprim::detail
