#include <core/host_memory.hpp>

#include <cstdint>
#include <memory>

#include <core/system.hpp>

namespace clprim {
namespace {

constexpr std::size_t page = std::size_t{2} << 20;

struct Mapping {
    void* address;
    std::size_t bytes;

    ~Mapping() { detail::release_addresses(address, bytes); }
};

// The driver calls it when nothing uses the buffer any more.
void CL_CALLBACK unmap(cl_mem, void* mapping) { delete static_cast<Mapping*>(mapping); }

}  // namespace

bool runs_on_host_processor(const Device& device)
{
    return (device.handle.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_CPU) &&
           (device.platform_name == "Intel(R) OpenCL" || device.platform_name == "Portable Computing Language");
}

cl_mem create_host_buffer(cl_context context, std::size_t bytes, void** address, cl_int* code)
{
    // One page more, since addresses are aligned to small ones only.
    void* const begin = detail::allocate_pages(bytes + page);
    if (!begin) {
        *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return nullptr;
    }
    std::unique_ptr<Mapping> mapping(new Mapping{begin, bytes + page});
    void* const aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page);
    const cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, aligned, code);
    if (*code != CL_SUCCESS)
        return nullptr;
    *code = clSetMemObjectDestructorCallback(buffer, unmap, mapping.get());
    if (*code != CL_SUCCESS) {
        clReleaseMemObject(buffer);   // nothing has used it yet
        return nullptr;
    }
    static_cast<void>(mapping.release());   // to the callback
    *address = aligned;
    return buffer;
}

}  // namespace clprim
