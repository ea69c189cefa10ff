// The command queue for the library's own commands, which count themselves: what Queue::handle() gives to others makes
// Queue::idle() ask the driver each time.
#pragma once

#include <clprim/queue.hpp>

namespace clprim::detail {

class QueueAccess {
public:
    static cl_command_queue handle(const Queue& queue) { return queue.handle_(); }
    // For launches that their thread runs itself; null where there is none, and where others use the queue as well.
    static CallerQueue* caller(const Queue& queue)
    {
        return queue.lent_.load(std::memory_order_relaxed) ? nullptr : queue.caller_.get();
    }
    static bool nothing_enqueued(const Queue& queue) { return queue.nothing_enqueued(); }
    static std::uint64_t commands(const Queue& queue) { return queue.commands_.load(std::memory_order_acquire); }
    static void set_finished(Queue& queue, std::uint64_t commands)
    {
        queue.finished_commands_.store(commands, std::memory_order_release);
    }
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
