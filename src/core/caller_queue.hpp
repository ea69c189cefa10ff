// Small kernels on CPU devices run on the thread that launches them.
//
// To hand a launch to the driver's threads takes 3 to 5 microseconds, and more where one must be woken. A queue of
// Intel's driver (cl_intel_exec_by_local_thread) has its commands run by the thread that enqueues them, at 1
// microsecond a launch. A kernel goes there that is known to take no longer than handing it over does, while nothing
// else is under way in its queue: in order without a word to the driver, and asynchronous as far as that could gain
// anything. Every command in the queue itself must count (Queue::count_command), or it is taken to be done.
// How long a kernel takes is learned from its launches, the first of them by an event.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <clprim/queue.hpp>
#include <core/float_environment.hpp>

CLPRIM_API_BEGIN
namespace clprim::detail {

// How many launches, copies and fills the threads that asked for them ran themselves, since start.
std::uint64_t commands_by_callers() noexcept;

// Beside a Queue on a device whose driver has such queues.
class CallerQueue {
public:
    static std::unique_ptr<CallerQueue> of(const Queue& queue);   // null where the device's driver has none
    explicit CallerQueue(cl::CommandQueue handle) : handle_(std::move(handle)) {}

    cl_command_queue handle() const { return handle_(); }
    // Whether all that was enqueued in the queue itself is known to be done.
    bool free(Queue& queue);
    // Between long launches short ones are not worth the event that says when they could run here again. Whether there
    // were several in a row that could not, this one with them; ended by a long one.
    bool often_not_free() { return short_in_a_row_.fetch_add(1, std::memory_order_relaxed) >= 3; }
    void end_of_row() { short_in_a_row_.store(0, std::memory_order_relaxed); }
    // The event of the command that makes it `commands` of the queue: asked by `free` as long as no other follows.
    void follow(cl_event event, std::uint64_t commands);

private:
    cl::CommandQueue handle_;
    std::mutex mutex_;
    cl::Event last_;
    std::uint64_t last_commands_ = 0;
    std::atomic<unsigned> short_in_a_row_{0};
};

// Microseconds that a launch is expected to take.
struct ExpectedTime {
    float caller = 0, driver = 0;
};
// Nothing where it is not known yet.
std::optional<ExpectedTime> expected_time(LaunchCost& cost, const Range& range, unsigned cores);
ExpectedTime expected_time_of_transfer(std::size_t bytes);

// Whether the calling thread may run a launch: not behind one that the driver's threads have, if it is short, or since
// it is one of a sequence that is done sooner so.
enum class ByCaller { no, if_short, yes };

// One launch: where to enqueue it, and what is learned from it.
class Placement {
public:
    Placement(Queue& queue, LaunchCost& cost, const Range& range, ByCaller may_run = ByCaller::if_short);

    cl_command_queue queue() const { return handle_; }
    bool by_caller() const { return by_caller_; }
    // The event argument of the enqueue call; `wanted`: by others, too.
    cl_event* event(bool wanted)
    {
        wanted_ = wanted;
        return wanted || measured_ || followed_ ? &event_ : nullptr;
    }
    // After the call. The event for those who wanted it, theirs then.
    cl_event enqueued();
    // After the command was counted, behind so many others: until another follows, it says whether the queue is free.
    void counted(std::uint64_t before);

private:
    using Clock = std::chrono::steady_clock;

    Queue& queue_;
    LaunchCost& cost_;
    cl_command_queue handle_;
    float groups_ = 1;
    bool by_caller_ = false, wanted_ = false, measured_ = false, followed_ = false;
    std::uint64_t commands_ = 0;   // counted before the enqueue
    cl_event event_ = nullptr;
    cl::Event kept_;
    std::optional<KernelFloatEnvironment> environment_;
    Clock::time_point started_;
};

// The queue for a copy or fill of so many bytes within the device.
class TransferPlace {
public:
    TransferPlace(Queue& queue, std::size_t bytes, ByCaller may_run = ByCaller::if_short);
    cl_command_queue queue() const { return handle_; }
    bool by_caller() const { return by_caller_; }

private:
    cl_command_queue handle_;
    bool by_caller_;
};

}  // namespace clprim::detail
CLPRIM_API_END
