// Sessions.
#include "c_api/handles.hpp"

#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

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
        : session(std::move(model), context, options)
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
            chosen.record = !options->no_recording;
            chosen.high_priority = options->high_priority != 0;
            chosen.programs = options->programs ? options->programs : "";
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

clprim_status clprim_session_save(const clprim_session* session, const char* path)
{
    return guarded([&] {
        require(session && path, "an argument is NULL");
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
        const Session::Values results = session->session.run(values, {.outputs = names, .bound = {}, .to_host = {}});
        // All handles are made before the first is given away.
        std::vector<std::unique_ptr<clprim_tensor>> made;
        for (const std::string& name : names)
            made.push_back(std::make_unique<clprim_tensor>(clprim_tensor{results.at(name), &session->session.queue()}));
        for (size_t i = 0; i < output_count; ++i)
            outputs[i].tensor = made[i].release();
    });
}

}  // extern "C"
