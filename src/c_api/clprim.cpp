#include <clprim.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <new>
#include <memory>
#include <string>
#include <vector>

#include <clprim/copy.hpp>
#include <clprim/interop.hpp>
#include <clprim/onnx.hpp>
#include <core/program_dump.hpp>

using namespace clprim;

struct clprim_tensor {
    Value value;
    Queue* queue = nullptr;   // of the session that made it
};

namespace {

// A port with its shape as C sees it.
struct Port {
    explicit Port(ModelPort given) : port(std::move(given))
    {
        for (const auto& size : port.shape) {
            const auto* number = std::get_if<std::int64_t>(&size);
            sizes.push_back(number && *number >= 0 ? *number : -1);
            names.push_back(number ? "" : std::get<std::string>(size).c_str());
        }
    }
    Port(const Port&) = delete;
    ModelPort port;
    std::vector<int64_t> sizes;
    std::vector<const char*> names;
};
using Ports = std::deque<Port>;              // whose members stay where they are

}  // namespace

struct clprim_session {
    clprim_session(const OnnxModel& model, Context& context, const SessionOptions& options = {})
        : session(model, context, options)
    {
        for (ModelPort& port : session.inputs())
            inputs.emplace_back(std::move(port));
        for (ModelPort& port : session.outputs())
            outputs.emplace_back(std::move(port));
    }
    Session session;
    Ports inputs, outputs;
};

namespace {

thread_local std::string last_error;

clprim_status failed(clprim_status status, const char* message) noexcept
{
    try {
        last_error = message;
    } catch (...) {
        last_error.clear();
    }
    return status;
}

// No exception crosses into C.
template <class F>
clprim_status guarded(F&& body) noexcept
{
    try {
        body();
        return CLPRIM_OK;
    } catch (const InvalidArgument& e) {
        return failed(CLPRIM_INVALID_ARGUMENT, e.what());
    } catch (const NotSupported& e) {
        return failed(CLPRIM_NOT_SUPPORTED, e.what());
    } catch (const IndexError& e) {
        return failed(CLPRIM_INDEX_ERROR, e.what());
    } catch (const OutOfMemory& e) {
        return failed(CLPRIM_OUT_OF_MEMORY, e.what());
    } catch (const std::bad_alloc&) {
        return failed(CLPRIM_OUT_OF_MEMORY, "the host has no memory left");
    } catch (const OpenCLError& e) {
        return failed(CLPRIM_OPENCL_ERROR, e.what());
    } catch (const BuildError& e) {
        return failed(CLPRIM_OPENCL_ERROR, e.what());
    } catch (const Cancelled& e) {
        return failed(CLPRIM_CANCELLED, e.what());
    } catch (const std::exception& e) {
        return failed(CLPRIM_INTERNAL_ERROR, e.what());
    } catch (...) {
        return failed(CLPRIM_INTERNAL_ERROR, "unknown error");
    }
}

Context& context_of(const char* device) { return device ? Context::get(std::string_view(device)) : Context::get(0); }

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

const char* name_at(const Ports& ports, size_t index)
{
    return index < ports.size() ? ports[index].port.name.c_str() : nullptr;
}

void describe(const Ports& ports, size_t index, clprim_port* target)
{
    require(target != nullptr, "port is NULL");
    require(index < ports.size(), "port ", index, " of ", ports.size());
    const Port& p = ports[index];
    *target = {p.port.name.c_str(), static_cast<int>(p.port.type), p.port.is_tensor, p.port.has_shape, p.sizes.size(),
               p.sizes.data(), p.names.data()};
}

}  // namespace

extern "C" {

const char* clprim_version(void) { return CLPRIM_VERSION_STRING; }
const char* clprim_last_error(void) { return last_error.c_str(); }

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

clprim_status clprim_session_create(const char* path, const char* device, clprim_session** session)
{
    return guarded([&] {
        require(path && session, "an argument is NULL");
        *session = new clprim_session(OnnxModel(std::filesystem::path(path)), context_of(device));
    });
}

clprim_status clprim_session_create_from_memory(const void* model, size_t bytes, const char* folder, const char* device,
                                                clprim_session** session)
{
    return guarded([&] {
        require(model && session, "an argument is NULL");
        const std::span<const std::byte> data(static_cast<const std::byte*>(model), bytes);
        *session = new clprim_session(OnnxModel::from_bytes(data, folder ? folder : ""), context_of(device));
    });
}

clprim_status clprim_session_create_with(const char* path, const char* device, const clprim_session_options* options,
                                         clprim_session** session)
{
    return guarded([&] {
        require(path && session, "an argument is NULL");
        SessionOptions chosen;
        if (options) {
            chosen.optimize = !options->no_optimization;
            chosen.profile = options->profile != 0;
            require(options->sizes || !options->size_count, "sizes is NULL");
            for (size_t i = 0; i < options->size_count; ++i) {
                require(options->sizes[i].name, "the name of size ", i, " is NULL");
                chosen.sizes[options->sizes[i].name] = options->sizes[i].size;
            }
        }
        *session = new clprim_session(OnnxModel(std::filesystem::path(path)), context_of(device), chosen);
    });
}

void clprim_session_free(clprim_session* session) { delete session; }

void clprim_session_cancel(clprim_session* session)
{
    if (session)
        session->session.cancel();
}

const char* clprim_session_metadata(const clprim_session* session, const char* key)
{
    if (!session || !key)
        return nullptr;
    const auto found = session->session.metadata().find(key);
    return found == session->session.metadata().end() ? nullptr : found->second.c_str();
}

clprim_status clprim_session_trace(const clprim_session* session, const char* path)
{
    return guarded([&] {
        require(session && path, "an argument is NULL");
        std::ofstream file(path);
        file << session->session.trace();
        require(static_cast<bool>(file.flush()), "cannot write '", path, "'");
    });
}

size_t clprim_session_input_count(const clprim_session* session) { return session ? session->inputs.size() : 0; }
size_t clprim_session_output_count(const clprim_session* session) { return session ? session->outputs.size() : 0; }

const char* clprim_session_input_name(const clprim_session* session, size_t index)
{
    return session ? name_at(session->inputs, index) : nullptr;
}

const char* clprim_session_output_name(const clprim_session* session, size_t index)
{
    return session ? name_at(session->outputs, index) : nullptr;
}

clprim_status clprim_session_input(const clprim_session* session, size_t index, clprim_port* port)
{
    return guarded([&] {
        require(session != nullptr, "session is NULL");
        describe(session->inputs, index, port);
    });
}

clprim_status clprim_session_output(const clprim_session* session, size_t index, clprim_port* port)
{
    return guarded([&] {
        require(session != nullptr, "session is NULL");
        describe(session->outputs, index, port);
    });
}

clprim_status clprim_session_run(clprim_session* session, const clprim_binding* inputs, size_t input_count,
                                 clprim_binding* outputs, size_t output_count)
{
    return guarded([&] {
        require(session && (inputs || !input_count) && outputs && output_count, "an argument is NULL or empty");
        Session::Values values;
        for (size_t i = 0; i < input_count; ++i) {
            require(inputs[i].name, "the name of input ", i, " is NULL");
            const bool fresh =
                values.emplace(inputs[i].name, inputs[i].tensor ? inputs[i].tensor->value : Value()).second;
            require(fresh, "input '", inputs[i].name, "' is given twice");
        }
        std::vector<std::string> names;
        for (size_t i = 0; i < output_count; ++i) {
            require(outputs[i].name, "the name of output ", i, " is NULL");
            names.emplace_back(outputs[i].name);
        }
        const Session::Values results = session->session.run(values, {.outputs = names, .bound = {}});
        // All handles are made before the first is given away.
        std::vector<std::unique_ptr<clprim_tensor>> made;
        for (const std::string& name : names)
            made.push_back(std::make_unique<clprim_tensor>(clprim_tensor{results.at(name), &session->session.queue()}));
        for (size_t i = 0; i < output_count; ++i)
            outputs[i].tensor = made[i].release();
    });
}

}  // extern "C"
