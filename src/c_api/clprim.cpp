// Versions, devices, tensors, OpenCL's own objects.
#include "c_api/handles.hpp"

#include <algorithm>

#include <clprim/copy.hpp>
#include <clprim/interop.hpp>
#include <clprim/runtime.hpp>
#include <core/program_dump.hpp>

using namespace clprim;
using namespace clprim::c_api;

namespace {

thread_local std::string last_error;

Dims shape_from(const int64_t* shape, size_t dims)
{
    require(shape || !dims, "shape is NULL");
    std::int64_t count = 1;
    for (size_t i = 0; i < dims; ++i) {
        require(shape[i] >= 0, "negative size ", shape[i]);
        require(!__builtin_mul_overflow(count, std::max<std::int64_t>(shape[i], 1), &count) &&
                    count < std::int64_t{1} << 48,
                "the tensor is too large");
    }
    return Dims(std::span<const std::int64_t>(shape, dims));
}

}  // namespace

clprim_status clprim::c_api::failed(clprim_status status, const char* message) noexcept
{
    try {
        last_error = message;
    } catch (...) {
        last_error.clear();
    }
    return status;
}

extern "C" {

const char* clprim_version(void) { return CLPRIM_VERSION_STRING; }
const char* clprim_last_error(void) { return last_error.c_str(); }

clprim_status clprim_use_programs(const char* folder)
{
    return guarded([&] {
        require(folder != nullptr, "folder is NULL");
        use_programs(folder);
    });
}

clprim_status clprim_set_log(void (*function)(void* user, int level, const char* line), void* user)
{
    return guarded([&] {
        if (!function)
            return set_log({});
        set_log([=](LogLevel level, std::string_view line) {
            function(user, static_cast<int>(level), std::string(line).c_str());
        });
    });
}

int clprim_device_count(void)
{
    int count = 0;
    guarded([&] { count = static_cast<int>(devices().size()); });
    return count;
}

clprim_status clprim_device_get(int index, clprim_device* device)
{
    return guarded([&] {
        require(device, "device is NULL");
        const Device& d = device_at(index);
        *device = {d.id.c_str(), d.name.c_str(), d.vendor.c_str(), d.kind == DeviceKind::cpu, d.global_memory};
    });
}

clprim_status clprim_build_programs(const char* device, const char* folder, size_t* built)
{
    return guarded([&] {
        require(folder && built, "folder or built is NULL");
        *built = build_dumped_programs(context_of(device), folder);
    });
}

clprim_status clprim_tensor_create(clprim_type type, const int64_t* shape, size_t dims, const void* data,
                                   clprim_tensor** tensor)
{
    return guarded([&] {
        const auto element = static_cast<ElementType>(type);
        require(tensor, "tensor is NULL");
        require(name_of(element) != "undefined" && element != ElementType::string, "bad element type ",
                static_cast<int>(type));
        const Dims sizes = shape_from(shape, dims);
        require(data || !sizes.product(), "data is NULL");
        *tensor = new clprim_tensor{Value::copy_of(element, sizes, data)};
    });
}

clprim_status clprim_tensor_create_strings(const int64_t* shape, size_t dims, const char* const* strings,
                                           clprim_tensor** tensor)
{
    return guarded([&] {
        require(tensor, "tensor is NULL");
        const Dims sizes = shape_from(shape, dims);
        std::vector<std::string> elements(static_cast<std::size_t>(sizes.product()));
        for (std::size_t i = 0; i < elements.size(); ++i) {
            require(strings && strings[i], "string ", i, " is NULL");
            elements[i] = strings[i];
        }
        *tensor = new clprim_tensor{Value::strings(sizes, std::move(elements))};
    });
}

void clprim_tensor_free(clprim_tensor* tensor) { delete tensor; }

int clprim_tensor_type(const clprim_tensor* tensor)
{
    return tensor && tensor->value.is_tensor() ? static_cast<int>(tensor->value.type()) : 0;
}

size_t clprim_tensor_dims(const clprim_tensor* tensor)
{
    return tensor && tensor->value.is_tensor() ? tensor->value.dim() : 0;
}

const int64_t* clprim_tensor_shape(const clprim_tensor* tensor)
{
    return tensor && tensor->value.is_tensor() ? tensor->value.shape().data() : nullptr;
}

size_t clprim_tensor_bytes(const clprim_tensor* tensor)
{
    if (!tensor || !tensor->value.is_tensor() || tensor->value.type() == ElementType::string)
        return 0;
    return static_cast<size_t>(tensor->value.numel()) * size_of(storage_type(tensor->value.type()));
}

clprim_status clprim_tensor_data(const clprim_tensor* tensor, const void** data)
{
    return guarded([&] {
        require(tensor && data, "an argument is NULL");
        *data = tensor->queue ? tensor->value.bytes(*tensor->queue) : tensor->value.host_bytes();
    });
}

clprim_status clprim_tensor_string(const clprim_tensor* tensor, size_t index, const char** text)
{
    return guarded([&] {
        require(tensor && text, "an argument is NULL");
        const std::vector<std::string>& strings = tensor->value.strings();
        require(index < strings.size(), "string ", index, " of ", strings.size());
        *text = strings[index].c_str();
    });
}

clprim_status clprim_opencl_get(const char* device, clprim_opencl* opencl)
{
    return guarded([&] {
        require(opencl, "opencl is NULL");
        Context& context = context_of(device);
        *opencl = {context.handle()(), context.device().handle(), context.queue().handle()()};
    });
}

clprim_status clprim_opencl_use_context(void* context)
{
    return guarded([&] { use_context(static_cast<cl_context>(context)); });
}

clprim_status clprim_opencl_wait_for(const char* device, void* event)
{
    return guarded([&] { context_of(device).queue().wait_for(adopt(static_cast<cl_event>(event))); });
}

clprim_status clprim_tensor_adopt(clprim_type type, const int64_t* shape, size_t dims, void* buffer, size_t offset,
                                  const char* device, clprim_tensor** tensor)
{
    return guarded([&] {
        require(tensor, "tensor is NULL");
        const auto element = static_cast<ElementType>(type);
        Context& context = context_of(device);
        const Tensor own = adopt(context, static_cast<cl_mem>(buffer), storage_type(element), shape_from(shape, dims),
                                 offset);
        *tensor = new clprim_tensor{Value(own, element), &context.queue()};
    });
}

clprim_status clprim_tensor_buffer(clprim_tensor* tensor, const char* device, void** buffer, size_t* offset)
{
    return guarded([&] {
        require(tensor && buffer && offset, "an argument is NULL");
        Queue& queue = context_of(device).queue();
        Tensor own = tensor->value.device(queue);
        require(own.memory->context == &queue.context(), "the tensor lies on another device");
        if (!own.is_contiguous()) {
            own = queue.context().empty(own.shape, own.dtype, queue);
            copy(queue, tensor->value.device(queue), own);
            tensor->value = Value(own, tensor->value.type());
        }
        tensor->queue = &queue;
        const OpenCLMemory memory = memory_of(own);
        *buffer = memory.buffer;
        *offset = memory.offset;
    });
}

}  // extern "C"
