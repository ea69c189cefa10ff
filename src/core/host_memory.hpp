// Buffers of devices that compute on this machine's processor: memory of this process.
#pragma once

#include <cstddef>

#include <clprim/device.hpp>

namespace clprim {

// Whether the driver compiles for the processor of this process: it takes its assembly in kernels, and uses memory that
// it is given without a copy.
bool runs_on_host_processor(const Device& device);

// A buffer in pages of 2 MiB, where the system has them: planes of an image lie far apart, and looking up a small page
// for each of them takes longer than the loads (most of all in a virtual machine). Null with a code if there is
// no memory. `address`: where it lies.
cl_mem create_host_buffer(cl_context context, std::size_t bytes, void** address, cl_int* code);

}  // namespace clprim
