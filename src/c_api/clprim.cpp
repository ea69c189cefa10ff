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

// A number that is none of dimensions must not be followed through the caller's memory.
constexpr size_t most_dims = 64;

Dims shape_from(const int64_t* shape, size_t dims)
{
    require(dims <= most_dims, "dims is ", dims, "; expected at most ", most_dims);
    require(shape || !dims, "shape is NULL; expected ", dims, " sizes");
    std::int64_t count = 1;
    for (size_t i = 0; i < dims; ++i) {
        require(shape[i] >= 0, "shape[", i, "] is ", shape[i], "; expected a size of 0 or more");
        require(!__builtin_mul_overflow(count, std::max<std::int64_t>(shape[i], 1), &count) &&
                    count < std::int64_t{1} << 48,
                "shape ", to_string(Dims(std::span(shape, dims))), " is more than memory can hold");
    }
    return Dims(std::span<const std::int64_t>(shape, dims));
}

ElementType type_from(clprim_type type)
{
    const auto element = static_cast<ElementType>(type);
    require(name_of(element) != "undefined", "type is ", static_cast<int>(type), "; expected a clprim_type");
    require(element != ElementType::string, "type is CLPRIM_STRING; expected one of numbers "
                                            "(clprim_tensor_create_strings makes tensors of strings)");
    return element;
}

const Value& tensor_of(const clprim_tensor* tensor)
{
    require_given(tensor, "tensor", "a clprim_tensor");
    const Value& value = tensor->value;
    require(value.is_tensor(), "tensor holds ",
            value.is_sequence() ? "a sequence" : value.is_map() ? "a map" : "nothing", "; expected a tensor");
    return tensor->value;
}

}  // namespace

clprim_status clprim::c_api::failed(const char* function, clprim_status status, const char* message) noexcept
{
    try {
        last_error = std::string(function) + ": " + message;
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
    return guarded(__func__, [&] {
        require_given(folder, "folder", "a path");
        use_programs(folder);
    });
}

clprim_status clprim_set_log(void (*function)(void* user, int level, const char* line), void* user)
{
    return guarded(__func__, [&] {
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
    guarded(__func__, [&] { count = static_cast<int>(devices().size()); });
    return count;
}

clprim_status clprim_device_get(int index, clprim_device* device)
{
    return guarded(__func__, [&] {
        require_given(device, "device", "where to describe the device");
        const Device& d = device_at(index);
        *device = {d.id.c_str(), d.name.c_str(), d.vendor.c_str(), d.kind == DeviceKind::cpu, d.global_memory};
    });
}

clprim_status clprim_build_programs(const char* device, const char* folder, size_t* built)
{
    return guarded(__func__, [&] {
        require_given(folder, "folder", "a path");
        require_given(built, "built", "where to count the programs");
        *built = build_dumped_programs(context_of(device), folder);
    });
}

clprim_status clprim_tensor_create(clprim_type type, const int64_t* shape, size_t dims, const void* data,
                                   clprim_tensor** tensor)
{
    return guarded(__func__, [&] {
        require_given(tensor, "tensor", "where to put the handle");
        const ElementType element = type_from(type);
        const Dims sizes = shape_from(shape, dims);
        require(data || !sizes.product(), "data is NULL; expected the elements of ", name_of(element), " ",
                to_string(sizes));
        *tensor = new clprim_tensor{Value::copy_of(element, sizes, data)};
    });
}

clprim_status clprim_tensor_create_strings(const int64_t* shape, size_t dims, const char* const* strings,
                                           clprim_tensor** tensor)
{
    return guarded(__func__, [&] {
        require_given(tensor, "tensor", "where to put the handle");
        const Dims sizes = shape_from(shape, dims);
        require(strings || !sizes.product(), "strings is NULL; expected ", sizes.product(), " strings");
        std::vector<std::string> elements(static_cast<std::size_t>(sizes.product()));
        for (std::size_t i = 0; i < elements.size(); ++i) {
            require(strings[i] != nullptr, "strings[", i, "] is NULL; expected a text");
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
    return guarded(__func__, [&] {
        require_given(data, "data", "where to put the pointer");
        const Value& value = tensor_of(tensor);
        require(value.type() != ElementType::string,
                "tensor holds strings; expected one of numbers (clprim_tensor_string reads strings)");
        *data = tensor->queue ? value.bytes(*tensor->queue) : value.host_bytes();
    });
}

clprim_status clprim_tensor_string(const clprim_tensor* tensor, size_t index, const char** text)
{
    return guarded(__func__, [&] {
        require_given(text, "text", "where to put the pointer");
        const Value& value = tensor_of(tensor);
        require(value.type() == ElementType::string, "tensor holds ", name_of(value.type()), "; expected strings");
        const std::vector<std::string>& strings = value.strings();
        require(index < strings.size(), "index is ", index, "; the tensor has ", strings.size(), " strings");
        *text = strings[index].c_str();
    });
}

clprim_status clprim_opencl_get(const char* device, clprim_opencl* opencl)
{
    return guarded(__func__, [&] {
        require_given(opencl, "opencl", "where to put the objects");
        Context& context = context_of(device);
        *opencl = {context.handle()(), context.device().handle(), context.queue().handle()()};
    });
}

clprim_status clprim_opencl_use_context(void* context)
{
    return guarded(__func__, [&] {
        require_given(context, "context", "a cl_context");
        use_context(static_cast<cl_context>(context));
    });
}

clprim_status clprim_opencl_wait_for(const char* device, void* event)
{
    return guarded(__func__, [&] {
        require_given(event, "event", "a cl_event");
        context_of(device).queue().wait_for(adopt(static_cast<cl_event>(event)));
    });
}

clprim_status clprim_tensor_adopt(clprim_type type, const int64_t* shape, size_t dims, void* buffer, size_t offset,
                                  const char* device, clprim_tensor** tensor)
{
    return guarded(__func__, [&] {
        require_given(tensor, "tensor", "where to put the handle");
        require_given(buffer, "buffer", "a cl_mem");
        const ElementType element = type_from(type);
        const Dims sizes = shape_from(shape, dims);
        require(offset <= PTRDIFF_MAX, "offset is ", offset, ", beyond any buffer; expected bytes from its beginning");
        Context& context = context_of(device);
        const Tensor own = adopt(context, static_cast<cl_mem>(buffer), storage_type(element), sizes, offset);
        *tensor = new clprim_tensor{Value(own, element), &context.queue()};
    });
}

clprim_status clprim_tensor_buffer(clprim_tensor* tensor, const char* device, void** buffer, size_t* offset)
{
    return guarded(__func__, [&] {
        require_given(buffer, "buffer", "where to put the cl_mem");
        require_given(offset, "offset", "where to put the offset");
        const Value& value = tensor_of(tensor);
        require(value.type() != ElementType::string, "tensor holds strings, which live on the host; expected numbers");
        Queue& queue = context_of(device).queue();
        Tensor own = value.device(queue);
        require(own.memory->context == &queue.context(), "the tensor lies on another device than ",
                device ? device : "the default one");
        if (!own.is_contiguous()) {
            const std::lock_guard lock(tensor->mutex);
            if (!tensor->row_major.defined()) {
                Tensor copied = queue.context().empty(own.shape, own.dtype, queue);
                copy(queue, own, copied);
                tensor->row_major = std::move(copied);
            }
            own = tensor->row_major;
        }
        const OpenCLMemory memory = memory_of(own);
        *buffer = memory.buffer;
        *offset = memory.offset;
    });
}

}  // extern "C"
