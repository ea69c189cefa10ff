// Page-locked host memory: buffers of the driver's own (CL_MEM_ALLOC_HOST_PTR), mapped for as long as they live, so
// that copies between them and the device need no staging. Freed blocks are kept and reused once the copies that were
// recorded on them are done.
#pragma once

#include <c10/core/Allocator.h>
#include <clprim/queue.hpp>

namespace torch_ocl {

c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);

// The copy just enqueued on the queue reads or writes pinned memory at this address: no reuse before it is done.
void record_pinned_use(const void* address, clprim::Queue& queue);

}  // namespace torch_ocl
