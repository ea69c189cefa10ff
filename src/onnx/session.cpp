#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <shared_mutex>
#include <utility>

#include <clprim/copy.hpp>
#include <clprim/onnx.hpp>
#include <clprim/recording.hpp>
#include <clprim/runtime.hpp>

#include "core/alive.hpp"
#include "core/dry_run.hpp"
#include "core/hollow.hpp"
#include "core/memory_pool.hpp"
#include "core/overlap.hpp"
#include "core/system.hpp"
#include "onnx/call.hpp"
#include "onnx/host_results.hpp"
#include "onnx/model_writer.hpp"
#include "onnx/optimize.hpp"
#include "onnx/ports.hpp"
#include "onnx/replays.hpp"
#include "onnx/surplus.hpp"

namespace clprim {

using namespace onnx;

namespace {

// Queues with even ids are those of high priority (core/queue.cpp).
constexpr int high_priority_queue = 2;

// A tensor of another context comes over through the host.
Value on_context(const Value& value, Context& context)
{
    if (!value.is_tensor() || !value.on_device() || value.on_host())
        return value;
    Context& owner = *value.device(context.queue()).memory->context;
    if (&owner == &context)
        return value;
    return Value::copy_of(value.type(), value.shape(), value.bytes(owner.queue()));
}

// A result in the memory that a caller has for it.
Value bound_to(const std::string& name, const Tensor& memory, const Value& result, Queue& queue)
{
    require(result.is_tensor(), "output '", name, "' is not a tensor and cannot be bound");
    require(memory.dtype == storage_type(result.type()) && memory.shape == result.shape(), "output '", name, "' is ",
            name_of(result.type()), " ", to_string(result.shape()), ", the memory bound to it ",
            clprim::name_of(memory.dtype), " ", to_string(memory.shape));
    copy(queue, result.device(queue), memory);
    return {memory, result.type()};
}

int queue_for(const SessionOptions& options, const Context& context)
{
    if (!options.queue)
        return options.high_priority ? high_priority_queue : 0;
    require(!options.high_priority && !options.threads,
            "SessionOptions::queue goes neither with high_priority nor with threads");
    require(&options.queue->context() == &context, "SessionOptions::queue: the queue is another device's");
    return options.queue->id();
}

// A session with a queue of its own runs behind what the usual queue has, and what that gets later runs behind it.
void run_behind(Queue& queue, Queue& other, const std::vector<Value>& values)
{
    if (&queue == &other)
        return;
    queue.wait_for(other.record());
    for (const Value& value : values)
        if (value.is_tensor() && value.on_device() && !value.on_host())
            queue.context().record_use(*value.device(other).memory, queue);
}

}  // namespace

struct Session::State {
    State(std::shared_ptr<const Model> model, Context& context_, const SessionOptions& options_)
        : context(options_.threads ? context_.with_threads(options_.threads) : context_), options(options_),
          metadata(model->metadata), files(model->files), mapped(model->mapped),
          queue_id(queue_for(options_, context_)),
          profile(options.profile ? std::make_unique<NodeProfile>() : nullptr)
    {
        if (!options.programs.empty())
            use_programs(options.programs);
        require_unwritten(mapped);
        Engine engine = new_engine();
        engine.profile = nullptr;
        opsets = model->opsets;
        ir_version = model->ir_version;
        const bool once = !files.empty() && !detail::dry_run();
        graph = prepare(std::move(model), engine, options, once ? Upload::at_first_use : Upload::now);
        if (options.record && !options.profile)
            replays = std::make_unique<Replays>(*graph);
        if (once)
            surplus = std::make_unique<Surplus>(*graph);
        gives_back = once;
        detail::trim_heap();                      // of the model
    }

    Queue& queue() const { return context.queue(queue_id); }
    Engine new_engine() { return {queue(), draws, profile.get(), &cancellations, cancellations}; }

    // Everything that asks for the values of constants goes through here.
    template <class Use>
    auto with_constants(const Use& use)
    {
        require_constants();
        if (auto result = unless_given_back(use))
            return std::move(*result);
        const std::unique_lock lock(constants);
        restore();
        gives_back = true;                        // again, by the next run
        return use();
    }

    // What `use` gives, or nothing where it needs a constant that is gone.
    template <class Use>
    std::optional<std::invoke_result_t<Use>> unless_given_back(const Use& use)
    {
        try {
            const std::shared_lock lock(constants);
            return use();
        } catch (const detail::GivenBack&) {
            return std::nullopt;
        }
    }

    std::vector<Value> run(const std::vector<Value>& arguments, Engine& engine)
    {
        const auto once = [&] {
            return replays ? replays->run(arguments, engine) : run_graph(*graph, arguments, nullptr, engine);
        };
        for (;;) {
            if (gives_back)
                if (auto results = giving_run(once, engine))
                    return std::move(*results);
            if (auto results = unless_given_back(once))
                return std::move(*results);
            const std::unique_lock lock(constants);
            restore();
            gives_back = ++returns < most_returns;
            if (!gives_back)
                surplus->upload_rest(engine.queue);
        }
    }

    // Until the first run has brought them to the device, constants may lie in their files.
    void require_constants() const
    {
        if (gives_back)
            require_unwritten(mapped);
    }

    // Nothing if it was done meanwhile, or is not to give anything back.
    template <class Run>
    std::optional<std::vector<Value>> giving_run(const Run& once, Engine& engine)
    {
        const std::unique_lock lock(constants);
        require_constants();
        std::optional<std::vector<Value>> results;
        // What a recording of the program's own prepares is there only when that is replayed. What could not be read
        // again stays.
        if (gives_back && !is_recording(engine.queue) && std::ranges::all_of(files, &ModelFile::is_unchanged)) {
            engine.surplus = surplus.get();
            surplus->begin();
            try {
                results = once();
            } catch (const detail::GivenBack&) {   // by a run that ended early
            }
            engine.surplus = nullptr;
        }
        surplus->upload_rest(engine.queue);
        graph->memory->trim();
        detail::trim_heap();
        gives_back = false;
        return results;
    }

    void restore()
    {
        Engine engine = new_engine();
        engine.profile = nullptr;
        surplus->restore(*prepare(read_again(files), engine, options, Upload::at_first_use));
    }

    NodeProfile& kept_times()
    {
        require(profile != nullptr, "the session keeps no times: it was made without SessionOptions::profile");
        return *profile;
    }

    Context& context;
    const SessionOptions options;
    std::map<std::string, std::string> metadata;
    const std::vector<ModelFile> files, mapped;
    std::map<std::string, std::int64_t> opsets;
    std::int64_t ir_version = 0;
    int queue_id;
    std::atomic<std::uint64_t> draws{0}, cancellations{0};
    GraphRef graph;
    std::unique_ptr<NodeProfile> profile;
    std::unique_ptr<Replays> replays;
    std::shared_mutex constants;          // held alone while they go and come back
    std::unique_ptr<Surplus> surplus;     // null where they stay
    std::atomic<bool> gives_back{false};  // until a run was done
    static constexpr int most_returns = 3;
    int returns = 0;                      // how often a run needed what was gone
};

namespace {

template <class State>
State& alive(const std::unique_ptr<State>& state)
{
    return detail::alive(state, "Session");
}

}  // namespace

Session::Session(OnnxModel model, Context& context, const SessionOptions& options)
{
    const auto missing = model.unsupported();
    if (!missing.empty()) {
        std::string text = "the model needs operators that clprim lacks:";
        for (const auto& [name, count] : missing)
            text += " " + name + " (" + std::to_string(count) + ")";
        for (const auto& [name, count] : missing)
            text += "; " + name + ": " + model.unsupported_reason(name);
        throw NotSupported(text);
    }
    std::shared_ptr<const Model> held = OnnxModel(std::move(model)).model();
    state_ = std::make_unique<State>(std::move(held), context, options);
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

Session::Values Session::run(const Values& inputs, const RunOptions& options)
{
    State& state = alive(state_);
    const Graph& graph = *state.graph;
    Engine engine = state.new_engine();
    std::vector<Value> arguments(graph.inputs.size());
    std::map<std::string, std::int64_t> sizes;
    for (const auto& [name, value] : inputs)
        require(find_port(graph.input_ports, name), "the model has no input '", name, "'; its inputs are ",
                names_of(graph.input_ports));
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const Port& port = graph.input_ports[i];
        const auto given = inputs.find(port.name);
        if (given == inputs.end()) {
            require(port.kind == Port::Kind::optional || !is_required(graph, i), "input '", port.name, "' (",
                    expected(port), ") is missing");
            continue;
        }
        if (port.kind != Port::Kind::optional)
            check_input(port, given->second, sizes);
        arguments[i] = on_context(given->second, state.context);
    }
    const auto require_output = [&](const std::string& name) {
        require(find_port(graph.output_ports, name), "the model has no output '", name, "'; its outputs are ",
                names_of(graph.output_ports));
    };
    std::ranges::for_each(options.outputs, require_output);
    for (const auto& [name, memory] : options.bound) {
        require_output(name);
        memory.check("Session::run", ("the memory of output '" + name + "'").c_str());
        require(memory.memory->context == &state.context, "output '", name,
                "': the bound memory is another device's");
        require(!detail::may_overlap(memory), "output '", name, "': elements of the bound memory overlap");
        for (const auto& [other, others] : options.bound)
            require(other == name || !detail::meet(memory, others), "outputs '", name, "' and '", other,
                    "': the memory bound to them overlaps");
    }

    HostResults host_results(graph, options);
    if (options.to_host)
        engine.host_results = &host_results;
    run_behind(engine.queue, state.context.queue(), arguments);
    const std::vector<Value> results = state.run(arguments, engine);
    Values values;
    bool in_place = false;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const std::string& name = graph.output_ports[i].name;
        if (host_results.has_in_place(i, results[i], engine.queue)) {
            values.emplace(name, results[i]);
            in_place = true;
            continue;
        }
        host_results.take(i, results[i], engine.queue);
        if (host_results.has(i))
            continue;
        const auto bound = options.bound.find(name);
        if (bound != options.bound.end())
            values.emplace(name, bound_to(name, bound->second, results[i], engine.queue));
        else if (options.outputs.empty() || std::ranges::find(options.outputs, name) != options.outputs.end())
            values.emplace(name, results[i]);
    }
    if (in_place)
        engine.queue.finish();
    run_behind(state.context.queue(), engine.queue, results);
    return values;
}

void Session::cancel() noexcept
{
    if (state_)
        ++state_->cancellations;
}

std::vector<ModelPort> Session::inputs() const { return model_ports(required_inputs(*alive(state_).graph)); }
std::vector<ModelPort> Session::outputs() const { return model_ports(alive(state_).graph->output_ports); }
Context& Session::context() const { return alive(state_).context; }
Queue& Session::queue() const { return alive(state_).queue(); }
const std::map<std::string, std::string>& Session::metadata() const { return alive(state_).metadata; }
std::vector<NodeTime> Session::profile() const
{
    State& state = alive(state_);
    return state.kept_times().times(*state.graph);
}

std::string Session::trace() const { return alive(state_).kept_times().trace(); }

void Session::save(const std::filesystem::path& file) const
{
    State& state = alive(state_);
    const Model model{state.graph, state.opsets, "clprim", state.ir_version, state.metadata, {}, {}};
    const std::string bytes = state.with_constants([&] { return model_bytes(model, state.queue()); });
    // What the session has open, and may have weights in, loses its name instead of its bytes.
    std::error_code none;
    for (const ModelFile& own : state.files)
        if (std::filesystem::equivalent(own.path(), file, none))
            std::filesystem::remove(std::filesystem::canonical(file, none), none);
    std::ofstream stream(file, std::ios::binary);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    require(static_cast<bool>(stream.flush()), "cannot write '", file.string(), "'");
}

}  // namespace clprim
