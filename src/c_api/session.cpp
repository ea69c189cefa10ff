// Sessions.
#include "c_api/handles.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include <clprim/copy.hpp>
#include <clprim/interop.hpp>

#include "onnx/graph.hpp"

using namespace clprim;
using namespace clprim::c_api;

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
    clprim_session(OnnxModel model, Context& context, const SessionOptions& options = {})
        : most_inputs(model.model()->graph->input_ports.size()), session(std::move(model), context, options)
    {
        for (ModelPort& port : session.inputs())
            inputs.emplace_back(std::move(port));
        for (ModelPort& port : session.outputs())
            outputs.emplace_back(std::move(port));
    }
    const size_t most_inputs;          // with those that have an initializer
    Session session;
    Ports inputs, outputs;
};

namespace {

const char* name_at(const Ports& ports, size_t index)
{
    return index < ports.size() ? ports[index].port.name.c_str() : nullptr;
}

void describe(const Ports& ports, size_t index, clprim_port* target)
{
    require_given(target, "port", "where to describe it");
    require(index < ports.size(), "index is ", index, "; the model has ", ports.size(), " of them");
    const Port& p = ports[index];
    *target = {p.port.name.c_str(), static_cast<int>(p.port.type), p.port.is_tensor, p.port.has_shape, p.sizes.size(),
               p.sizes.data(), p.names.data()};
}

void require_handle(const clprim_session* session) { require_given(session, "session", "a clprim_session"); }

// Counts are compared with what the model has before any of the caller's memory is read by them.
void require_count(const char* name, size_t count, size_t most, const char* of)
{
    require(count <= most, name, " is ", count, "; the model has ", most, " ", of);
}

std::map<std::string, std::int64_t> sizes_from(const clprim_session_options& options, const OnnxModel& model)
{
    std::set<std::string> known;
    for (const onnx::Port& port : model.model()->graph->input_ports)
        for (const auto& size : port.shape)
            if (const auto* name = std::get_if<std::string>(&size); name && !name->empty())
                known.insert(*name);
    std::map<std::string, std::int64_t> sizes;
    if (options.size_count != 1)               // a single one is refused by its name
        require_count("size_count", options.size_count, known.size(), "sizes with names");
    require(options.sizes || !options.size_count, "sizes is NULL; expected ", options.size_count, " sizes");
    for (size_t i = 0; i < options.size_count; ++i) {
        const clprim_size& given = options.sizes[i];
        require(given.name != nullptr, "sizes[", i, "].name is NULL; expected the name of a size");
        require(sizes.emplace(given.name, given.size).second, "size '", given.name, "' is given twice");
    }
    return sizes;
}

Session::Values values_from(const clprim_session& session, const clprim_binding* inputs, size_t count)
{
    require_count("input_count", count, session.most_inputs, "inputs");
    require(inputs || !count, "inputs is NULL; expected ", count, " of them");
    Session::Values values;
    for (size_t i = 0; i < count; ++i) {
        require(inputs[i].name != nullptr, "inputs[", i, "].name is NULL; expected the name of an input");
        const bool fresh = values.emplace(inputs[i].name, inputs[i].tensor ? inputs[i].tensor->value : Value()).second;
        require(fresh, "input '", inputs[i].name, "' is given twice");
    }
    return values;
}

// The device memory of a tensor that a run writes to: its own, as others must not change with it (an output may be a
// constant of the session, or what was an input). Elements kept on the host would be stale afterwards.
Tensor memory_to_write(clprim_tensor& tensor, Queue& queue)
{
    const std::lock_guard lock(tensor.mutex);
    const Value& value = tensor.value;
    require(value.is_tensor() && value.type() != ElementType::string, "a tensor of strings or none cannot be written");
    Tensor memory;
    if (value.on_device() && value.owns_memory()) {
        memory = value.device(queue);
    } else {
        memory = queue.context().empty(value.shape(), storage_type(value.type()), queue);
        copy(queue, value.device(queue), memory);
    }
    tensor.value = Value(memory, value.type());
    tensor.queue = &queue;
    tensor.row_major = {};
    return tensor.value.device(queue);
}

std::vector<std::string> names_from(const clprim_session& session, const clprim_binding* outputs, size_t count)
{
    require_count("output_count", count, session.outputs.size(), "outputs");
    require(count > 0, "output_count is 0; expected at least one output");
    require_given(outputs, "outputs", "the outputs to compute");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
        require(outputs[i].name != nullptr, "outputs[", i, "].name is NULL; expected the name of an output");
        require(std::ranges::find(names, outputs[i].name) == names.end(), "output '", outputs[i].name,
                "' is asked for twice");
        names.emplace_back(outputs[i].name);
    }
    return names;
}

}  // namespace

extern "C" {

clprim_status clprim_session_create(const char* path, const char* device, clprim_session** session)
{
    return guarded(__func__, [&] {
        require_given(path, "path", "an ONNX file");
        require_given(session, "session", "where to put the handle");
        *session = new clprim_session(OnnxModel(std::filesystem::path(path)), context_of(device));
    });
}

clprim_status clprim_session_create_from_memory(const void* model, size_t bytes, const char* folder, const char* device,
                                                clprim_session** session)
{
    return guarded(__func__, [&] {
        require_given(model, "model", "the bytes of an ONNX file");
        require(bytes > 0, "bytes is 0; expected those of an ONNX file");
        require_given(session, "session", "where to put the handle");
        const std::span<const std::byte> data(static_cast<const std::byte*>(model), bytes);
        *session = new clprim_session(OnnxModel::from_bytes(data, folder ? folder : ""), context_of(device));
    });
}

clprim_status clprim_session_create_with(const char* path, const char* device, const clprim_session_options* options,
                                         clprim_session** session)
{
    return guarded(__func__, [&] {
        require_given(path, "path", "an ONNX file");
        require_given(session, "session", "where to put the handle");
        OnnxModel model{std::filesystem::path(path)};
        SessionOptions chosen;
        if (options) {
            if (options->optimization)
                chosen.optimization = optimization_level_from_name(options->optimization);
            if (options->no_optimization) {
                require(!options->optimization || chosen.optimization == OptimizationLevel::none,
                        "no_optimization goes with no optimization but \"none\", got \"", options->optimization, "\"");
                chosen.optimization = OptimizationLevel::none;
            }
            chosen.profile = options->profile != 0;
            chosen.sizes = sizes_from(*options, model);
            chosen.record = !options->no_recording;
            chosen.high_priority = options->high_priority != 0;
            chosen.programs = options->programs ? options->programs : "";
            chosen.threads = options->threads;
            if (options->opencl_queue)
                chosen.queue = &adopt(context_of(device), static_cast<cl_command_queue>(options->opencl_queue));
        }
        *session = new clprim_session(std::move(model), context_of(device), chosen);
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
    const char* text = nullptr;
    guarded(__func__, [&] {
        const auto& metadata = session->session.metadata();
        if (const auto found = metadata.find(key); found != metadata.end())
            text = found->second.c_str();
    });
    return text;
}

clprim_status clprim_session_trace(const clprim_session* session, const char* path)
{
    return guarded(__func__, [&] {
        require_handle(session);
        require_given(path, "path", "a file to write");
        std::ofstream file(path);
        file << session->session.trace();
        require(static_cast<bool>(file.flush()), "cannot write '", path, "'");
    });
}

clprim_status clprim_session_save(const clprim_session* session, const char* path)
{
    return guarded(__func__, [&] {
        require_handle(session);
        require_given(path, "path", "a file to write");
        session->session.save(path);
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
    return guarded(__func__, [&] {
        require_handle(session);
        describe(session->inputs, index, port);
    });
}

clprim_status clprim_session_output(const clprim_session* session, size_t index, clprim_port* port)
{
    return guarded(__func__, [&] {
        require_handle(session);
        describe(session->outputs, index, port);
    });
}

clprim_status clprim_session_run(clprim_session* session, const clprim_binding* inputs, size_t input_count,
                                 clprim_binding* outputs, size_t output_count)
{
    return guarded(__func__, [&] {
        require_handle(session);
        const Session::Values values = values_from(*session, inputs, input_count);
        const std::vector<std::string> names = names_from(*session, outputs, output_count);
        const Session::Values results = session->session.run(values, {.outputs = names, .bound = {}, .to_host = {}});
        // All handles are made before the first is given away.
        std::vector<std::unique_ptr<clprim_tensor>> made;
        for (const std::string& name : names)
            made.emplace_back(new clprim_tensor{results.at(name), &session->session.queue()});
        for (size_t i = 0; i < output_count; ++i)
            outputs[i].tensor = made[i].release();
    });
}

clprim_status clprim_session_run_into(clprim_session* session, const clprim_binding* inputs, size_t input_count,
                                      clprim_binding* outputs, size_t output_count)
{
    return guarded(__func__, [&] {
        require_handle(session);
        RunOptions options{.outputs = names_from(*session, outputs, output_count), .bound = {}, .to_host = {}};
        for (size_t i = 0; i < output_count; ++i)   // before inputs, which may be the same tensors, share their memory
            if (outputs[i].tensor)
                options.bound.emplace(outputs[i].name, memory_to_write(*outputs[i].tensor, session->session.queue()));
        const Session::Values values = values_from(*session, inputs, input_count);
        const Session::Values results = session->session.run(values, options);
        std::vector<std::unique_ptr<clprim_tensor>> made(output_count);
        for (size_t i = 0; i < output_count; ++i)
            if (!outputs[i].tensor)
                made[i].reset(new clprim_tensor{results.at(outputs[i].name), &session->session.queue()});
        for (size_t i = 0; i < output_count; ++i)
            if (made[i])
                outputs[i].tensor = made[i].release();
    });
}

}  // extern "C"
