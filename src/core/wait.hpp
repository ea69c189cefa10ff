// The host's wait for a device. On CPU devices the cores that it waits for are its own.
#pragma once

#include <chrono>

#include <core/driver_threads.hpp>

namespace clprim::detail {

// Ahead of a launch: a CPU device's cores are made free for it.
void before_launch() noexcept;

// Waits come alike, loop after loop: after a long one the next launch is taken to start a long one, and worth the tenth
// of a millisecond that letting OpenMP's threads go takes; and after one of 50 microseconds the next may be looked at.
class Wait {
public:
    explicit Wait(bool on_host) noexcept;
    ~Wait();
    Wait(const Wait&) = delete;

private:
    bool on_host_;
    DriverThreadLook look_;
    std::chrono::steady_clock::time_point started_;
};

}  // namespace clprim::detail
