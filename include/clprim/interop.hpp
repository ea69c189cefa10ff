// OpenCL objects of other libraries for clprim, and clprim's for them.
//
//     cl_mem theirs = clCreateBuffer(context.handle()(), ...);            // in clprim's context
//     const Tensor x = adopt(context, theirs, DataType::float32, {64, 3, 224, 224});
//     queue.wait_for(adopt(their_event));                                 // their work on it comes first
//     softmax(queue, x, x, 1);
//     const Event done = queue.record();                                  // done.handle()() is a cl_event for them
//     const OpenCLMemory y = memory_of(tensor);                          // a cl_mem and where a tensor lies in it
//     softmax(adopt(context, their_queue), x, x, 1);                      // on their queue: no event is needed
//
// Context::handle, Queue::handle, Device::handle and Event::handle give the objects themselves. Whoever keeps one
// longer than clprim's object retains it. A tensor's cl_mem holds other tensors too: work on its bytes alone.
#pragma once

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Makes clprim use a cl_context of the caller's for its devices instead of one of its own, so that buffers of either
// serve both. It is retained. Throws InvalidArgument if clprim uses one of its devices already (Context::created), or
// knows none of them.
void use_context(cl_context context);

// A tensor in a buffer of the context's cl_context, from `offset` bytes on, which is retained as long as tensors refer
// to it. Strides are in elements; none: row-major. Throws InvalidArgument for what is no such buffer or too small, and
// for an offset that is not a multiple of the element.
Tensor adopt(Context& context, cl_mem buffer, DataType dtype, const Dims& shape, std::size_t offset = 0,
             const Dims& strides = {});

// For Queue::wait_for and Event::wait; retained. Of any context, other drivers' too. Throws InvalidArgument for null.
Event adopt(cl_event event);

// A queue of the caller's for the library's commands, behind what is enqueued there and ahead of what will be: an
// in-order queue of the context's cl_context and device. It is retained until the process ends; the same handle gives
// the same Queue. Times of commands (Event::elapsed_ms, profiles) need CL_QUEUE_PROFILING_ENABLE. Throws
// InvalidArgument for what is no such queue, NotSupported for one that is out of order and for a 33rd.
Queue& adopt(Context& context, cl_command_queue queue);

struct OpenCLMemory {
    cl_mem buffer = nullptr;
    std::size_t offset = 0;      // bytes to the tensor's first element
};
OpenCLMemory memory_of(const Tensor& tensor);

// Where the tensor's first element lies in this process, on devices whose kernels work in its memory (CPU devices of
// drivers that take memory of the host as their own); null on others and in adopted buffers. To be read and written
// only while no command works on the tensor, and for as long as the tensor lives.
void* host_address(const Tensor& tensor);

}  // namespace clprim
CLPRIM_API_END
