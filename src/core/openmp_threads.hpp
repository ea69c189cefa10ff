// OpenMP's threads, which another runtime of the process has: PyTorch's CPU kernels, for one. After a parallel loop
// they spin for milliseconds in case more comes, on cores that a CPU device has work for by then.
#pragma once

#include <chrono>

namespace clprim::detail {

// Lets the calling thread's idle OpenMP threads go, or sleep, by OpenMP 5.0's omp_pause_resource_all; the next parallel
// loop has them again. Nothing where the process has no such OpenMP, within a parallel loop, or if
// CLPRIM_PAUSE_OPENMP=0.
void pause_openmp_threads() noexcept;

// The host's wait for a device. Waits come alike, loop after loop: after a long one the next is taken to be long too,
// and worth the tenth of a millisecond that a pause takes.
class Wait {
public:
    explicit Wait(bool on_host) noexcept;
    ~Wait();
    Wait(const Wait&) = delete;

private:
    std::chrono::steady_clock::time_point started_;
};

}  // namespace clprim::detail
