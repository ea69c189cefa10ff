#include <core/recording.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>
#include <variant>

#include <clprim/context.hpp>
#include <core/caller_queue.hpp>
#include <core/profile.hpp>
#include <core/queue_handle.hpp>
#include <core/wait.hpp>

namespace clprim {
namespace {

struct KernelCommand {
    cl::Kernel kernel;      // one of its own, which holds its arguments
    std::string name;
    Range range;
    LaunchCost cost;
};
struct WriteCommand {
    cl_mem target;
    std::size_t offset, bytes;
    std::vector<char> kept;
    const void* pinned;     // read at each replay where it is not null
};
struct ReadCommand {
    cl_mem source;
    std::size_t offset, bytes;
    void* target;
};
struct CopyCommand {
    cl_mem source, target;
    std::size_t source_offset, target_offset, bytes;
};
struct FillCommand {
    cl_mem target;
    std::size_t offset, bytes;
    std::vector<char> pattern;
};

std::size_t bytes_of(const KernelCommand&) { return 0; }
std::size_t bytes_of(const auto& command) { return command.bytes; }

using Command = std::variant<KernelCommand, WriteCommand, ReadCommand, CopyCommand, FillCommand>;

struct Argument {
    std::size_t bytes;
    std::vector<char> value;   // empty for local memory
};
thread_local std::vector<Argument> launch_arguments;

std::mutex recordings_mutex;
std::vector<Recording::State*>& recordings()
{
    static auto* all = new std::vector<Recording::State*>;
    return *all;
}

template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;   // compilers without C++20's deduction for aggregates need it

}  // namespace

struct Recording::State {
    Queue& queue;
    std::mutex mutex;           // autograd's threads launch too
    std::vector<Command> commands;
    bool active = false;
    bool expected_before = false;   // of the queue: errors of kernels
    bool checks = false;            // whether kernels of the recording may record errors
    std::thread::id only{};     // the one thread that is recorded; none: all are

    bool covers_this_thread() const { return only == std::thread::id{} || only == std::this_thread::get_id(); }

    template <class T>
    void add(T command)
    {
        const std::lock_guard lock(mutex);
        commands.emplace_back(std::move(command));
    }

    // Whether the thread that replays it has it done by itself before the driver's threads would. It waits for all of
    // it then, so only where that is short.
    bool caller_is_sooner()
    {
        constexpr float longest_us = 250, waking_us = 6;
        detail::ExpectedTime all{0, waking_us};
        for (Command& command : commands) {
            auto* const kernel = std::get_if<KernelCommand>(&command);
            const auto one =
                kernel ? detail::expected_time(kernel->cost, kernel->range, queue.device().compute_units)
                       : detail::expected_time_of_transfer(std::visit([](auto& c) { return bytes_of(c); }, command));
            if (!one || all.caller > longest_us)
                return false;
            all.caller += one->caller;
            all.driver += one->driver;
        }
        return all.caller <= std::min(all.driver, longest_us);
    }
};

std::atomic<int> detail::active_recordings{0};

Recording::State* detail::find_recording(const Queue& queue) noexcept
{
    const std::lock_guard lock(recordings_mutex);
    for (Recording::State* state : recordings())
        if (&state->queue == &queue && state->covers_this_thread())
            return state;
    return nullptr;
}

bool is_recording(const Queue& queue) noexcept { return detail::recording(queue) != nullptr; }

void detail::refuse_while_recording(const Queue& queue, const char* what)
{
    if (recording(queue)) [[unlikely]]
        throw Error(std::string(what) + " cannot be recorded: the queue's work is being kept for replay, not done");
}

void detail::refuse_event_of_recording(const Queue& queue, cl_event event)
{
    cl_command_queue owner = nullptr;
    if (clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof owner, &owner, nullptr) != CL_SUCCESS || !owner)
        return;
    const std::lock_guard lock(recordings_mutex);
    for (const Recording::State* state : recordings())
        if (&state->queue != &queue && detail::QueueAccess::handle(state->queue) == owner &&
            state->covers_this_thread())
            throw Error("a recording holds the work of one queue: another queue cannot wait for its events");
}

void detail::record_argument(unsigned index, std::size_t bytes, const void* value)
{
    if (index == 0)
        launch_arguments.clear();
    const auto* begin = static_cast<const char*>(value);
    launch_arguments.push_back({bytes, begin ? std::vector<char>(begin, begin + bytes) : std::vector<char>()});
}

// A kernel object of its own and not a clone (clCloneKernel): PoCL's clones crash, and OpenCL 1.2 has none.
void detail::record_kernel(Recording::State& state, const Kernel& kernel, const Range& range)
{
    cl_program program = nullptr;
    check_opencl(clGetKernelInfo(kernel.handle(), CL_KERNEL_PROGRAM, sizeof program, &program, nullptr),
                 "clGetKernelInfo", kernel.name);
    cl_int code = CL_SUCCESS;
    cl::Kernel own(clCreateKernel(program, kernel.name.c_str(), &code));
    check_opencl(code, "clCreateKernel", kernel.name);
    if (kernel.argument_count == 0)
        launch_arguments.clear();
    for (cl_uint i = 0; i < launch_arguments.size(); ++i) {
        const Argument& argument = launch_arguments[i];
        check_opencl(clSetKernelArg(own(), i, argument.bytes, argument.value.empty() ? nullptr : argument.value.data()),
                     "clSetKernelArg", kernel.name);
    }
    state.add(KernelCommand{std::move(own), kernel.name, range, {}});
}

void detail::record_write(Recording::State& state, Block& target, std::size_t offset, const void* source,
                          std::size_t bytes, bool pinned)
{
    WriteCommand command{target.buffer, target.offset + offset, bytes, {}, pinned ? source : nullptr};
    if (!pinned)
        command.kept.assign(static_cast<const char*>(source), static_cast<const char*>(source) + bytes);
    state.add(std::move(command));
}

void detail::record_read(Recording::State& state, const Block& source, std::size_t offset, void* target,
                         std::size_t bytes)
{
    state.add(ReadCommand{source.buffer, source.offset + offset, bytes, target});
}

void detail::record_copy(Recording::State& state, const Block& source, std::size_t source_offset, Block& target,
                         std::size_t target_offset, std::size_t bytes)
{
    state.add(CopyCommand{source.buffer, target.buffer, source.offset + source_offset, target.offset + target_offset,
                          bytes});
}

void detail::record_fill(Recording::State& state, Block& target, std::size_t offset, std::size_t bytes,
                         const void* pattern, std::size_t pattern_bytes)
{
    const auto* begin = static_cast<const char*>(pattern);
    state.add(FillCommand{target.buffer, target.offset + offset, bytes, {begin, begin + pattern_bytes}});
}

Recording::Recording(Queue& queue, Threads threads)
    : state_(new State{queue, {}, {}, false, false, false,
                       threads == Threads::all ? std::thread::id() : std::this_thread::get_id()})
{
    const std::lock_guard lock(recordings_mutex);
    for (const State* other : recordings())
        require(&other->queue != &queue || !other->covers_this_thread(), "the queue's work is being recorded already");
    recordings().push_back(state_.get());
    state_->active = true;
    state_->expected_before = detail::QueueAccess::exchange_errors_expected(queue, false);
    ++detail::active_recordings;
}

Recording::~Recording() { end(); }

void Recording::end()
{
    const std::lock_guard lock(recordings_mutex);
    if (!state_->active)
        return;
    state_->active = false;
    state_->checks = detail::QueueAccess::exchange_errors_expected(state_->queue, false);
    if (state_->expected_before || state_->checks)
        state_->queue.expect_errors();
    std::erase(recordings(), state_.get());
    --detail::active_recordings;
}

void Recording::replay(Queue& queue) const
{
    require(!state_->active, "a recording must end before it is replayed");
    require(&queue.context() == &state_->queue.context(), "a recording is replayed on the device that it was made on");
    detail::refuse_while_recording(queue, "the replay of another recording");
    if (state_->checks) {
        // Kernels with checked indices write to the error words of the queue that was recorded.
        state_->queue.error_buffer();
        state_->queue.expect_errors();
    }
    const std::lock_guard lock(state_->mutex);
    detail::before_launch();
    using detail::ByCaller;
    const ByCaller first = state_->caller_is_sooner() ? ByCaller::yes : ByCaller::if_short;
    bool handed_over = false;   // any of it to the driver's threads
    const auto transfer = [&](std::size_t bytes) {
        const detail::TransferPlace place(queue, bytes, handed_over ? ByCaller::no : first);
        handed_over = !place.by_caller();
        return place.queue();
    };
    for (Command& command : state_->commands)
        std::visit(
            Overloaded{
                [&](KernelCommand& c) {
                    const bool profiled = detail::profiling();
                    const std::int64_t enqueue_started = profiled ? detail::profile_time() : 0;
                    const std::size_t* local = c.range.local[0] ? c.range.local.data() : nullptr;
                    detail::Placement place(queue, c.cost, c.range, handed_over ? ByCaller::no : first);
                    check_opencl(clEnqueueNDRangeKernel(place.queue(), c.kernel(), c.range.dims, nullptr,
                                                        c.range.global.data(), local, 0, nullptr,
                                                        place.event(profiled)),
                                 "clEnqueueNDRangeKernel", c.name);
                    const cl_event event = place.enqueued();
                    handed_over = !place.by_caller();
                    detail::kernel_launch_count.fetch_add(1, std::memory_order_relaxed);
                    if (profiled) {
                        ProfiledCommand profile;
                        profile.name = c.name;
                        profile.enqueue_started = enqueue_started;
                        profile.global = c.range.global;
                        profile.local = c.range.local;
                        detail::add_command(queue, event, std::move(profile));
                    }
                },
                [&](const WriteCommand& c) {
                    detail::CommandEvent event(queue, ProfiledCommand::Kind::write, c.bytes);
                    check_opencl(clEnqueueWriteBuffer(transfer(c.bytes), c.target, CL_FALSE, c.offset, c.bytes,
                                                      c.pinned ? c.pinned : c.kept.data(), 0, nullptr, event.pointer()),
                                 "clEnqueueWriteBuffer");
                    event.keep();
                },
                [&](const ReadCommand& c) {
                    detail::CommandEvent event(queue, ProfiledCommand::Kind::read, c.bytes);
                    check_opencl(clEnqueueReadBuffer(transfer(c.bytes), c.source, CL_FALSE, c.offset, c.bytes, c.target,
                                                     0, nullptr, event.pointer()),
                                 "clEnqueueReadBuffer");
                    event.keep();
                },
                [&](const CopyCommand& c) {
                    detail::CommandEvent event(queue, ProfiledCommand::Kind::copy, c.bytes);
                    check_opencl(clEnqueueCopyBuffer(transfer(c.bytes), c.source, c.target, c.source_offset,
                                                     c.target_offset, c.bytes, 0, nullptr, event.pointer()),
                                 "clEnqueueCopyBuffer");
                    event.keep();
                },
                [&](const FillCommand& c) {
                    detail::CommandEvent event(queue, ProfiledCommand::Kind::fill, c.bytes);
                    check_opencl(clEnqueueFillBuffer(transfer(c.bytes), c.target, c.pattern.data(), c.pattern.size(),
                                                     c.offset, c.bytes, 0, nullptr, event.pointer()),
                                 "clEnqueueFillBuffer");
                    event.keep();
                }},
            command);
    if (handed_over)
        queue.flush();
}

std::vector<RecordedCommand> Recording::commands() const
{
    std::vector<RecordedCommand> result;
    const std::lock_guard lock(state_->mutex);
    for (const Command& command : state_->commands)
        result.push_back(std::visit(
            Overloaded{[](const KernelCommand& c) {
                           return RecordedCommand{c.name, c.range.global, c.range.local, 0};
                       },
                       [](const WriteCommand& c) { return RecordedCommand{"write", {}, {}, c.bytes}; },
                       [](const ReadCommand& c) { return RecordedCommand{"read", {}, {}, c.bytes}; },
                       [](const CopyCommand& c) { return RecordedCommand{"copy", {}, {}, c.bytes}; },
                       [](const FillCommand& c) { return RecordedCommand{"fill", {}, {}, c.bytes}; }},
            command));
    return result;
}

}  // namespace clprim
