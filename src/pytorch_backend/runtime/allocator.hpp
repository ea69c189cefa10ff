// Device memory for PyTorch's storages, from the caching allocator of clprim. A storage's DataPtr holds the block's
// address (for pointer arithmetic only: the host must not follow it) and, as its context, the clprim::Block itself.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <clprim/memory.hpp>

#include <runtime/device.hpp>

namespace torch_ocl {

c10::DeviceAllocator& device_allocator();

// A block on the device (-1: current), for use on its current stream.
c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes);

// Where a DataPtr of this device points: the block and the bytes from its start. Also for pointers wrapped by foreign
// code (from_blob, DLPack). A null pointer gives the device's shared empty block.
struct Place {
    clprim::Block* block;
    std::size_t bytes;
};
Place place_of(const c10::DataPtr& pointer);

}  // namespace torch_ocl
