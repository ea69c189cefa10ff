#include <clprim/interop.hpp>

#include <core/adopted_context.hpp>
#include <core/caching_allocator.hpp>

namespace clprim {

namespace {

// What `get`, one of OpenCL's clGet...Info, says of an object of the caller's.
template <class T, auto get>
T property(auto handle, cl_uint what, const char* kind)
{
    T value{};
    const cl_int code = get(handle, what, sizeof value, &value, nullptr);
    require(code == CL_SUCCESS, "adopt: the handle is not an OpenCL ", kind, " (code ", code, ")");
    return value;
}

template <class T>
T of_memory(cl_mem buffer, cl_mem_info what)
{
    return property<T, clGetMemObjectInfo>(buffer, what, "memory object");
}

template <class T>
T of_queue(cl_command_queue queue, cl_command_queue_info what)
{
    return property<T, clGetCommandQueueInfo>(queue, what, "command queue");
}

}  // namespace

void use_context(cl_context context)
{
    require(context != nullptr, "use_context: the context is null");
    cl_uint count = 0;
    require(clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof count, &count, nullptr) == CL_SUCCESS,
            "use_context: the handle is not an OpenCL context");
    std::vector<cl_device_id> ids(count);
    check_opencl(clGetContextInfo(context, CL_CONTEXT_DEVICES, count * sizeof(cl_device_id), ids.data(), nullptr),
                 "clGetContextInfo");
    detail::adopt_context(cl::Context(context, true), ids);
}

Tensor adopt(Context& context, cl_mem buffer, DataType dtype, const Dims& shape, std::size_t offset,
             const Dims& strides)
{
    require(buffer != nullptr, "adopt: the buffer is null");
    require(of_memory<cl_mem_object_type>(buffer, CL_MEM_TYPE) == CL_MEM_OBJECT_BUFFER,
            "adopt: the memory object is not a buffer");
    require(of_memory<cl_context>(buffer, CL_MEM_CONTEXT) == context.handle()(),
            "adopt: the buffer belongs to another cl_context than the device's (Context::handle); make it there, or "
            "give clprim its context by use_context before first use");
    require(is_data_type(dtype), "adopt: ", static_cast<int>(dtype), " is no dtype");
    require(offset % size_of(dtype) == 0, "adopt: offset ", offset, " is not a multiple of the ", size_of(dtype),
            " bytes of ", name_of(dtype));
    auto* block = new Block;
    const Memory memory(block, [](Block* owned) {
        clReleaseMemObject(owned->buffer);
        delete owned;
    });
    check_opencl(clRetainMemObject(buffer), "clRetainMemObject");
    block->buffer = buffer;
    block->size = block->requested = of_memory<std::size_t>(buffer, CL_MEM_SIZE);
    block->context = &context;
    block->allocated = true;
    const Tensor result(memory, static_cast<std::int64_t>(offset / size_of(dtype)), dtype, shape,
                        strides.empty() ? contiguous_strides(shape) : strides);
    result.check("adopt", "the tensor");
    return result;
}

Event adopt(cl_event event)
{
    require(event != nullptr, "adopt: the event is null");
    return Event(cl::Event(event, true));
}

Queue& adopt(Context& context, cl_command_queue queue)
{
    require(queue != nullptr, "adopt: the queue is null");
    require(of_queue<cl_context>(queue, CL_QUEUE_CONTEXT) == context.handle()(),
            "adopt: the queue belongs to another cl_context than the device's (Context::handle); make it there, or "
            "give clprim its context by use_context before first use");
    require(of_queue<cl_device_id>(queue, CL_QUEUE_DEVICE) == context.device().handle(),
            "adopt: the queue is another device's");
    require<NotSupported>(
        !(of_queue<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES) & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
        "adopt: the queue is out of order; the library's commands follow each other");
    return context.add_queue(cl::CommandQueue(queue, true));
}

OpenCLMemory memory_of(const Tensor& tensor)
{
    tensor.check("memory_of", "the tensor");
    return {tensor.memory->buffer,
            tensor.memory->offset + static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype)};
}

void* host_address(const Tensor& tensor)
{
    tensor.check("host_address", "the tensor");
    char* const block = detail::host_address(*tensor.memory);
    return block ? block + static_cast<std::size_t>(tensor.offset) * size_of(tensor.dtype) : nullptr;
}

}  // namespace clprim
