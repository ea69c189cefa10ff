#include <memory_binding.hpp>

#include <ATen/core/CachingHostAllocator.h>

#include <clprim/context.hpp>
#include <clprim/memory_history.hpp>

#include <runtime/allocator.hpp>
#include <runtime/errors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

std::atomic<int> sync_debug_mode{0};   // 0 default, 1 warn, 2 error

void meet_blocking(const char* what)
{
    switch (sync_debug_mode.load()) {
    case 1: TORCH_WARN("called a synchronizing ocl operation: ", what); break;
    case 2: TORCH_CHECK(false, "called a synchronizing ocl operation: ", what); break;
    default: break;
    }
}

void set_sync_debug_mode(int mode)
{
    sync_debug_mode = mode;
    clprim::set_blocking_hook(mode == 0 ? nullptr : &meet_blocking);
}

std::uint64_t allocate_raw(std::size_t bytes, int device, std::int64_t stream)
{
    const auto index = static_cast<c10::DeviceIndex>(device);
    clprim::Queue& queue = queue_of(c10::Stream(c10::Stream::UNSAFE, {device_type, index}, stream));
    const clprim::Block* block = translate_errors([&] { return queue.context().allocate_block(bytes, queue); });
    return reinterpret_cast<std::uint64_t>(block->address);
}

void free_raw(std::uint64_t address)
{
    const auto* pointer = reinterpret_cast<const void*>(address);
    for (c10::DeviceIndex i = 0; i < device_count(); ++i)
        if (clprim::Context::created(i))
            if (clprim::Block* block = context(i).find_block(pointer)) {
                TORCH_CHECK(block->address == pointer, "the address lies inside an allocation, not at its start");
                return context(i).free_block(block);
            }
    TORCH_CHECK(false, "no allocation of an ocl device begins at address ", address);
}

// Where the operating system lists the device, "0000:03:00.0"; empty where its driver does not say.
std::string pci_address(int index)
{
    const clprim::Device& device = clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index)));
    char text[32] = {};
    if (device.has_extension("cl_khr_pci_bus_info")) {
        cl_uint info[4] = {};   // domain, bus, device, function
        if (clGetDeviceInfo(device.handle(), 0x410F, sizeof info, info, nullptr) == CL_SUCCESS)
            std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", info[0], info[1], info[2], info[3]);
    } else if (device.has_extension("cl_amd_device_attribute_query")) {
        cl_char info[24] = {};   // cl_device_topology_amd: type, then padding, bus, device, function at its end
        if (clGetDeviceInfo(device.handle(), 0x4037, sizeof info, info, nullptr) == CL_SUCCESS)
            std::snprintf(text, sizeof text, "0000:%02x:%02x.%x", static_cast<unsigned char>(info[21]),
                          static_cast<unsigned char>(info[22]), static_cast<unsigned char>(info[23]));
    } else if (device.has_extension("cl_nv_device_attribute_query")) {
        cl_uint bus = 0, slot = 0;
        if (clGetDeviceInfo(device.handle(), 0x4008, sizeof bus, &bus, nullptr) == CL_SUCCESS &&
            clGetDeviceInfo(device.handle(), 0x4009, sizeof slot, &slot, nullptr) == CL_SUCCESS)
            std::snprintf(text, sizeof text, "0000:%02x:%02x.%x", bus, slot >> 3, slot & 7);
    }
    return text;
}

pybind11::bytes device_uuid(int index)
{
    const clprim::Device& device = clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index)));
    unsigned char uuid[16] = {};
    if (!device.has_extension("cl_khr_device_uuid") ||
        clGetDeviceInfo(device.handle(), 0x106A, sizeof uuid, uuid, nullptr) != CL_SUCCESS)
        return pybind11::bytes();
    return pybind11::bytes(reinterpret_cast<const char*>(uuid), sizeof uuid);
}

cl_uint clock_rate(int index)
{
    const clprim::Device& device = clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index)));
    cl_uint megahertz = 0;
    clGetDeviceInfo(device.handle(), CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof megahertz, &megahertz, nullptr);
    return megahertz;
}

// With the keys of torch.cuda.host_memory_stats.
pybind11::dict host_memory_stats()
{
    const at::HostStats stats = at::getHostAllocator(device_type)->get_stats();
    pybind11::dict result;
    const auto put = [&](const std::string& name, const c10::CachingAllocator::Stat& stat) {
        result[(name + ".current").c_str()] = stat.current;
        result[(name + ".peak").c_str()] = stat.peak;
        result[(name + ".allocated").c_str()] = stat.allocated;
        result[(name + ".freed").c_str()] = stat.freed;
    };
    put("allocations", stats.allocations);
    put("allocated_bytes", stats.allocated_bytes);
    put("active_requests", stats.active_requests);
    put("active_bytes", stats.active_bytes);
    result["num_host_alloc"] = stats.allocations.allocated;
    result["num_host_free"] = stats.allocations.freed;
    return result;
}

}  // namespace

void bind_memory(pybind11::module_& m)
{
    namespace py = pybind11;
    bind_memory_history(m);
    bind_graph(m);
    m.def("host_memory_stats", &host_memory_stats);
    m.def("empty_host_cache", [] { at::getHostAllocator(device_type)->empty_cache(); });
    m.def("reset_host_memory_stats", [](bool peak) {
        at::HostAllocator* allocator = at::getHostAllocator(device_type);
        peak ? allocator->reset_peak_stats() : allocator->reset_accumulated_stats();
    });
    m.def("set_sync_debug_mode", &set_sync_debug_mode);
    m.def("get_sync_debug_mode", [] { return sync_debug_mode.load(); });
    m.def("allocate_raw", &allocate_raw);
    m.def("free_raw", &free_raw);
    m.def("memory_limit", [](int index) {
        return clprim::memory_limit(context(static_cast<c10::DeviceIndex>(index)));
    });
    m.def("memory_caching", [](int index) {
        return clprim::memory_caching(context(static_cast<c10::DeviceIndex>(index)));
    });
    m.def("set_memory_caching", [](bool caching) {
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            clprim::set_memory_caching(context(i), caching);
    });
    m.def("new_memory_pool", &clprim::new_memory_pool);
    m.def("release_memory_pool", &clprim::release_memory_pool);
    m.def("exchange_memory_pool", &clprim::exchange_memory_pool);
    m.def("new_stream", [](int index, int priority) {
        return new_stream(static_cast<c10::DeviceIndex>(index), priority).id();
    });
    m.def("shares_context", [](int a, int b) {
        return context(static_cast<c10::DeviceIndex>(a)).handle()() ==
               context(static_cast<c10::DeviceIndex>(b)).handle()();
    });
    m.def("has_extension", [](int index, const std::string& name) {
        return clprim::device_at(checked_device(static_cast<c10::DeviceIndex>(index))).has_extension(name);
    });
    m.def("pci_address", &pci_address);
    m.def("device_uuid", &device_uuid);
    m.def("clock_rate", &clock_rate);
    m.def("error_name", [](int code) { return std::string(clprim::opencl_error_name(code)); });
}

}  // namespace torch_ocl
