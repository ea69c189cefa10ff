// The launching side of clprim/profile.hpp.
#pragma once

#include <atomic>

#include <clprim/profile.hpp>
#include <clprim/queue.hpp>

namespace clprim::detail {

extern std::atomic<int> active_profiles;
inline bool profiling() noexcept { return active_profiles.load(std::memory_order_relaxed) != 0; }

std::int64_t profile_time() noexcept;   // nanoseconds since 1970

// Takes over the event of a command that has just been enqueued.
void add_command(Queue& queue, cl_event event, ProfiledCommand command);

// The event argument of an enqueue call and what becomes of it: asks for an event only while something is profiled.
class CommandEvent {
public:
    CommandEvent(Queue& queue, ProfiledCommand::Kind kind, std::size_t bytes)
        : queue_(queue), kind_(kind), bytes_(bytes), wanted_(profiling())
    {
        if (wanted_) [[unlikely]]
            started_ = profile_time();
    }
    cl_event* pointer() { return wanted_ ? &event_ : nullptr; }
    void keep()
    {
        if (wanted_ && event_) [[unlikely]] {
            ProfiledCommand command;
            command.kind = kind_;
            command.bytes = bytes_;
            command.enqueue_started = started_;
            add_command(queue_, event_, std::move(command));
        }
    }

private:
    Queue& queue_;
    ProfiledCommand::Kind kind_;
    std::size_t bytes_;
    bool wanted_;
    std::int64_t started_ = 0;
    cl_event event_ = nullptr;
};

}  // namespace clprim::detail
