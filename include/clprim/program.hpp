// OpenCL programs, built once per device and kept in memory and on disk.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <clprim/device.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// What a kernel's launches have taken, by which the next one's place is chosen on CPU devices.
struct LaunchCost {
    float group_us = -1;        // a work-group on one core; negative: not known yet
    unsigned passed = 0;        // launches given to the driver's threads
    cl::Event measured;         // of a launch under way that says it
    float measured_groups = 0;
};

// One kernel of a program. cl_kernel carries argument state, so a launch holds `mutex` from its first argument to the
// enqueue; Queue::launch does that.
struct Kernel {
    cl::Kernel handle;
    std::string name;
    unsigned argument_count = 0;
    std::size_t max_work_group_size = 1;   // for this kernel on its device
    bool used = true;                      // launched since somebody last looked for programs to release
    LaunchCost cost;
    std::mutex mutex;
};

class Program {
public:
    Program(cl::Program handle, const Device& device) : handle_(std::move(handle)), device_(&device) {}

    // The kernel of that name, created at first use. Valid as long as the program. Throws OpenCLError.
    Kernel& kernel(std::string_view name) const;
    const cl::Program& handle() const { return handle_; }

private:
    cl::Program handle_;
    const Device* device_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, Kernel, std::less<>> kernels_;
};

// Text of an embedded source file, by its path below src (e.g. "kernels/gemm/gpu_tiled.cl", "core/dtype.cl"), with
// every line `#include "path"` replaced by that file (each file once). With CLPRIM_KERNEL_PATH set, files are read from
// that folder instead. Throws InvalidArgument for an unknown name.
std::string kernel_source(std::string_view path);

}  // namespace clprim
CLPRIM_API_END
