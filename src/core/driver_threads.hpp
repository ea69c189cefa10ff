// The threads of a CPU device's driver, where the thread that waits for the device works, too.
//
// A system may wake a driver's thread on the very CPU that gave it work and goes on with it, and leave the two there
// for milliseconds while another CPU is idle: Linux does where its CPUs were busy before, since it looks for an idle
// one no further then. Work that follows a pause takes twice as long on two CPUs. So the driver's threads, found by
// what they do during long waits, are kept off the CPU of the thread that launches.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include <core/system.hpp>

CLPRIM_API_BEGIN
namespace clprim::detail {

// Ahead of work for a CPU device. Nothing where no such threads were found, or if CLPRIM_PLACE_THREADS=0.
void make_way_for_driver_threads() noexcept;

// Whether threads other than the calling one are at work at this moment, or spin; so they are taken to be where the
// system does not say. device_busy: the driver's may be, and are not asked.
bool others_at_work(bool device_busy) noexcept;

// A look at what the process's threads do while one waits for a CPU device, which says which are the driver's.
class DriverThreadLook {
public:
    // Of waits that are known to be long the first are looked at, and some of the later ones.
    void begin() noexcept;
    void end(std::chrono::nanoseconds waited) noexcept;

private:
    std::optional<std::vector<std::int64_t>> at_work(std::chrono::nanoseconds waited) const;

    struct Thread {
        std::int64_t id;
        std::chrono::nanoseconds running;
    };
    std::vector<Thread> before_;
};

}  // namespace clprim::detail
CLPRIM_API_END
