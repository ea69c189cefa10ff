// OpenCL devices and their capabilities, read once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_HPP_TARGET_OPENCL_VERSION 300
#define CL_HPP_MINIMUM_OPENCL_VERSION 110   // 120 does not compile in some releases of opencl.hpp
#define CL_HPP_ENABLE_EXCEPTIONS
#include <CL/opencl.hpp>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Which kernels suit the device: tiles in registers and caches (cpu) or in local memory (gpu).
enum class DeviceKind { cpu, gpu };

struct Device {
    cl::Device handle;
    cl::Platform platform;
    int index = 0;               // position in devices()
    std::string id;              // "platform:device", stable for one set of drivers, e.g. "0:1"
    std::string name, vendor, driver_version, platform_name;
    DeviceKind kind = DeviceKind::gpu;   // CLPRIM_DEVICE_KIND=cpu|gpu overrides what the driver says
    int version = 120;           // OpenCL version of the device, 120, 200, 300, ...
    std::string c_standard;      // what to give -cl-std=, "CL1.2", "CL2.0" or "CL3.0"
    std::vector<std::string> extensions;
    bool fp64 = false;           // double in kernels
    bool fp16 = false;           // half arithmetic in kernels (storage through vload_half always works)
    bool int64_atomics = false;
    bool unified_memory = false; // host and device share the same physical memory
    bool sub_groups = false;
    bool amx = false;            // kernels may use the host's AMX tile registers; CLPRIM_AMX=0 forbids it
    unsigned vnni_bytes = 0;     // of vectors that kernels may multiply fours of bytes with (x86's vpdpbusd): 64, 32 or
                                 // 0; CLPRIM_VNNI=32 or 0 allows no more
    std::vector<std::size_t> sub_group_sizes;   // Intel's required sub-group sizes; empty when unknown
    unsigned compute_units = 1;
    unsigned native_float_lanes = 1;            // of the device's vectors
    std::size_t global_memory = 0, max_allocation = 0, local_memory = 0, max_work_group_size = 1;
    std::size_t global_cache = 0;

    bool has_extension(std::string_view name) const;
};

// All usable devices: GPUs first, then accelerators, then CPUs; among CPUs the fastest known driver first.
// CLPRIM_DEVICES filters and orders them: a comma-separated list of ids ("0:1"), kinds ("gpu", "cpu") or parts of
// names ("Intel"). Read once per process. Never throws: without a driver the list is empty.
const std::vector<Device>& devices() noexcept;

// The device at an index. Throws InvalidArgument that says how many there are, or what to install if none.
const Device& device_at(int index);

// Index of the device that a text names: "1", "0:1", "ocl:1", "gpu", or part of a name. Throws InvalidArgument.
int find_device(std::string_view text);

// What to tell a user who has no device: which packages bring an OpenCL driver.
std::string no_device_help();

}  // namespace clprim
CLPRIM_API_END
