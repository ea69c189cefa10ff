// What ran on the devices and when: every kernel, copy and fill, with the times of OpenCL's events. Costs one relaxed
// load per command while nothing is profiled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct ProfiledCommand {
    enum class Kind { kernel, write, read, copy, fill };
    Kind kind = Kind::kernel;
    std::string name;                        // of the kernel; empty for the others
    int device = 0, queue = 0;
    std::size_t bytes = 0;                   // that a copy or fill moves
    std::array<std::size_t, 3> global{}, local{};   // of a kernel; local all 0 where the driver chose
    std::int64_t enqueue_started = 0, enqueued = 0;      // the call; nanoseconds since 1970
    std::int64_t started = 0, ended = 0;                 // on the device, in the same clock
    std::int64_t thread = 0;                             // the system's number of the enqueueing thread
    std::uint64_t correlation = 0;           // correlation() of the enqueueing thread
    std::uint64_t annotation = 0;            // annotation() of it
};

// Collects from construction to stop(). Several may collect at a time.
class Profile {
public:
    Profile();
    ~Profile();
    Profile(const Profile&) = delete;

    // Waits for the commands that were enqueued meanwhile and returns them, in the order of enqueueing. Later calls
    // return nothing.
    std::vector<ProfiledCommand> stop();

private:
    std::uint64_t first_ = 0;
    bool stopped_ = false;
};

// What is kept with each command that this thread enqueues, e.g. the id of an operator of a framework. A stack.
void push_correlation(std::uint64_t id);
void pop_correlation();
std::uint64_t correlation();

// The same for ranges that a program names.
void push_annotation(std::uint64_t id);
void pop_annotation();
std::uint64_t annotation();

}  // namespace clprim
CLPRIM_API_END
