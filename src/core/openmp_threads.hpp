// OpenMP's threads, which another runtime of the process has: PyTorch's CPU kernels, for one. After a parallel loop
// they spin for milliseconds in case more comes, on cores that a CPU device has work for by then.
#pragma once

namespace clprim::detail {

// Lets the calling thread's spinning OpenMP threads go, or sleep, by OpenMP 5.0's omp_pause_resource_all; the next
// parallel loop has them again. Nothing where the process has no such OpenMP, within a parallel loop, or if
// CLPRIM_PAUSE_OPENMP=0. device_busy: there are launches ahead.
void pause_openmp_threads(bool device_busy) noexcept;

}  // namespace clprim::detail
