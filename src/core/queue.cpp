#include <clprim/queue.hpp>

#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/memory_history.hpp>
#include <clprim/recording.hpp>
#include <core/blocking.hpp>
#include <core/caching_allocator.hpp>
#include <core/caller_queue.hpp>
#include <core/event_bridge.hpp>
#include <core/hollow.hpp>
#include <core/host_memory.hpp>
#include <core/openmp_threads.hpp>
#include <core/operands.hpp>
#include <core/profile.hpp>
#include <core/queue_handle.hpp>
#include <core/recording.hpp>
#include <core/wait.hpp>

namespace clprim {

void detail::require_here(const Queue& queue, const Block& block)
{
    if (block.context != &queue.context()) [[unlikely]]
        throw InvalidArgument(fmt::format("Expected all tensors to be on the same device, but found at least two "
                                          "devices: {} ({}) and {} ({})",
                                          queue.device().index, queue.device().name, block.context->device().index,
                                          block.context->device().name));
    if (!block.buffer && is_hollow(block)) [[unlikely]]
        throw GivenBack();
}

namespace {

// The whole of a block's room may be used, which is more than was asked for.
void require_inside(const Block& block, std::size_t offset, std::size_t bytes, const char* what)
{
    if (offset > block.size || bytes > block.size - offset) [[unlikely]]
        throw InvalidArgument(fmt::format("Queue::{}: {} bytes from byte {} on reach beyond a block of {} bytes", what,
                                          bytes, offset, block.size));
}

// Queues with an even id, the default apart, are those of high priority, where a driver knows of it.
bool has_high_priority(const Device& device, int id)
{
    return id > 0 && id % 2 == 0 && device.version >= 200 && device.has_extension("cl_khr_priority_hints");
}

bool runs_on_host(const Queue& queue) { return queue.device().kind == DeviceKind::cpu; }

}  // namespace

Queue::Queue(Context& context, int id, bool profiling) : context_(context), id_(id)
{
    caller_ = detail::CallerQueue::of(*this);
    cl_int code = CL_SUCCESS;
    const cl_command_queue_properties properties = profiling ? CL_QUEUE_PROFILING_ENABLE : 0;
    if (has_high_priority(context.device(), id)) {
        const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, CL_QUEUE_PRIORITY_KHR,
                                            CL_QUEUE_PRIORITY_HIGH_KHR, 0};
        const cl_command_queue queue =
            clCreateCommandQueueWithProperties(context.handle()(), context.device().handle(), list, &code);
        if (code == CL_SUCCESS) {
            handle_ = cl::CommandQueue(queue);
            return;
        }
    }
    // The OpenCL 1.2 call, since devices of that version lack the later one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    handle_ = cl::CommandQueue(clCreateCommandQueue(context.handle()(), context.device().handle(), properties, &code));
#pragma GCC diagnostic pop
    check_opencl(code, "clCreateCommandQueue");
}

Queue::Queue(Context& context, int id, cl::CommandQueue theirs)
    : context_(context), id_(id), handle_(std::move(theirs)), lent_(true)
{
}

Queue::~Queue() = default;

const Device& Queue::device() const { return context_.device(); }

void Queue::flush()
{
    count_command();
    check_opencl(clFlush(handle_()), "clFlush");
}

std::uint64_t Queue::flush_now_and_then()
{
    // Some drivers start nothing before a flush; one per launch would double the cost of a launch.
    constexpr unsigned launches_per_flush = 16;
    const std::uint64_t before = commands_.fetch_add(1, std::memory_order_release);
    if (before % launches_per_flush == launches_per_flush - 1) {
        if (runs_on_host(*this))
            detail::pause_openmp_threads(true);
        clFlush(handle_());
    }
    return before;
}

void Queue::write(Block& target, std::size_t offset_bytes, const void* source, std::size_t bytes, bool pinned)
{
    if (bytes == 0)
        return;
    detail::require_here(*this, target);
    require_inside(target, offset_bytes, bytes, "write");
    require(source != nullptr, "Queue::write: the source is null");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]] {
        detail::record_write(*recording, target, offset_bytes, source, bytes, pinned);
        if (pinned)
            return;
    }
    if (char* const here = detail::host_address(target); here && nothing_enqueued() && !detail::profiling()) {
        std::memcpy(here + offset_bytes, source, bytes);
        return;
    }
    cl_bool blocking = CL_FALSE;
    cl_event event = nullptr;
    Staging* staging = nullptr;
    const void* from = source;
    if (!pinned) {
        staging = staging_for(bytes);
        if (staging)
            from = std::memcpy(staging->data.get(), source, bytes);
        else
            blocking = CL_TRUE;
    }
    if (blocking) {
        detail::count_blocking_transfer("a copy of pageable memory to the device");
        detail::settle_barriers();
    }
    const bool profiled = detail::profiling();
    const std::int64_t enqueue_started = profiled ? detail::profile_time() : 0;
    const cl_int code = clEnqueueWriteBuffer(handle_(), target.buffer, blocking, target.offset + offset_bytes, bytes,
                                             from, 0, nullptr, staging || profiled ? &event : nullptr);
    if (code != CL_SUCCESS && staging) {
        std::lock_guard lock(staging_mutex_);
        staging->taken = false;
    }
    check_opencl(code, "clEnqueueWriteBuffer");
    if (profiled) [[unlikely]] {
        if (staging)
            clRetainEvent(event);
        ProfiledCommand command;
        command.kind = ProfiledCommand::Kind::write;
        command.enqueue_started = enqueue_started;
        command.bytes = bytes;
        detail::add_command(*this, event, std::move(command));
    }
    if (staging) {
        std::lock_guard lock(staging_mutex_);
        staging->copied = cl::Event(event);
        staging->taken = false;
    }
    flush();
}

void detail::settle_for_write(Queue& queue)
{
    if (runs_on_host_processor(queue.device()) && !is_recording(queue))
        QueueAccess::finish_commands(queue);
}

// A host buffer that holds a copy of a pageable source until the device has read it; null for a large source, or when
// all buffers are under way.
Queue::Staging* Queue::staging_for(std::size_t bytes)
{
    constexpr std::size_t largest = std::size_t{16} << 20, smallest = std::size_t{1} << 16, most = 64;
    if (bytes > largest)
        return nullptr;
    std::lock_guard lock(staging_mutex_);
    for (auto& staging : staging_)
        if (!staging.taken && staging.bytes >= bytes && staging.bytes <= std::max(4 * bytes, smallest) &&
            Event(staging.copied).query()) {
            staging.taken = true;
            return &staging;
        }
    if (staging_bytes_ + bytes > 4 * largest || staging_.size() >= most) {
        // Too much is held: buffers that are not in use make room.
        std::erase_if(staging_, [&](const Staging& staging) {
            const bool idle = !staging.taken && Event(staging.copied).query();
            if (idle)
                staging_bytes_ -= staging.bytes;
            return idle;
        });
        if (staging_bytes_ + bytes > 4 * largest || staging_.size() >= most)
            return nullptr;
    }
    Staging& staging = staging_.emplace_back();
    staging.bytes = std::max(smallest, bytes);
    staging.data = std::make_unique_for_overwrite<char[]>(staging.bytes);   // pages that no copy touches take no memory
    staging.taken = true;
    staging_bytes_ += staging.bytes;
    return &staging;
}

void Queue::read(const Block& source, std::size_t offset_bytes, void* target, std::size_t bytes, bool pinned)
{
    if (bytes == 0)
        return;
    detail::require_here(*this, source);
    require_inside(source, offset_bytes, bytes, "read");
    require(target != nullptr, "Queue::read: the target is null");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]] {
        if (!pinned)
            detail::refuse_while_recording(*this, "a copy to pageable memory of the host");
        return detail::record_read(*recording, source, offset_bytes, target, bytes);
    }
    if (!pinned) {
        detail::count_blocking_transfer("a copy from the device to the host");
        if (const char* const here = detail::host_address(source); here && !detail::profiling()) {
            finish_commands();
            std::memcpy(target, here + offset_bytes, bytes);
            return throw_errors();
        }
        detail::settle_barriers();
        read_errors_ahead();
    }
    const detail::KernelFloatEnvironment environment;
    detail::CommandEvent event(*this, ProfiledCommand::Kind::read, bytes);
    check_opencl(clEnqueueReadBuffer(handle_(), source.buffer, pinned ? CL_FALSE : CL_TRUE,
                                     source.offset + offset_bytes, bytes, target, 0, nullptr, event.pointer()),
                 "clEnqueueReadBuffer");
    event.keep();
    if (!pinned)
        throw_errors();
    else
        flush();
}

void Queue::check_elements(const Tensor& tensor, bool fits, const char* what)
{
    tensor.check("Queue", what);
    require(fits, "Queue::", what, ": the C++ type is not that of elements of ", name_of(tensor.dtype));
    require(tensor.is_contiguous(), "Queue::", what, ": a tensor of shape ", to_string(tensor.shape), " and strides ",
            to_string(tensor.strides), " is not contiguous; copy it into one that is");
}

void Queue::write_elements(const Tensor& target, bool fits, const void* elements, std::size_t count)
{
    check_elements(target, fits, "write");
    require(static_cast<std::int64_t>(count) == target.numel(), "Queue::write: ", count, " elements for a tensor of ",
            target.numel());
    write(*target.memory, static_cast<std::size_t>(target.offset) * size_of(target.dtype), elements, target.nbytes());
}

void Queue::copy(const Block& source, std::size_t source_bytes, Block& target, std::size_t target_bytes,
                 std::size_t bytes)
{
    if (bytes == 0)
        return;
    detail::require_here(*this, source);
    detail::require_here(*this, target);
    require_inside(source, source_bytes, bytes, "copy");
    require_inside(target, target_bytes, bytes, "copy");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]]
        return detail::record_copy(*recording, source, source_bytes, target, target_bytes, bytes);
    detail::CommandEvent event(*this, ProfiledCommand::Kind::copy, bytes);
    const detail::TransferPlace place(*this, bytes);
    check_opencl(clEnqueueCopyBuffer(place.queue(), source.buffer, target.buffer, source.offset + source_bytes,
                                     target.offset + target_bytes, bytes, 0, nullptr, event.pointer()),
                 "clEnqueueCopyBuffer");
    event.keep();
    if (!place.by_caller())
        flush_now_and_then();
}

void Queue::fill(Block& target, std::size_t offset_bytes, std::size_t bytes, const void* pattern,
                 std::size_t pattern_bytes)
{
    if (bytes == 0)
        return;
    detail::require_here(*this, target);
    require_inside(target, offset_bytes, bytes, "fill");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]]
        return detail::record_fill(*recording, target, offset_bytes, bytes, pattern, pattern_bytes);
    detail::CommandEvent event(*this, ProfiledCommand::Kind::fill, bytes);
    const detail::TransferPlace place(*this, bytes);
    check_opencl(clEnqueueFillBuffer(place.queue(), target.buffer, pattern, pattern_bytes, target.offset + offset_bytes,
                                     bytes, 0, nullptr, event.pointer()),
                 "clEnqueueFillBuffer");
    event.keep();
    if (!place.by_caller())
        flush_now_and_then();
}

Event Queue::record()
{
    cl_event event = nullptr;
    check_opencl(clEnqueueMarkerWithWaitList(handle_(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
    clFlush(handle_());   // so that other queues and query() see it complete without a wait
    return Event(cl::Event(event));
}

void Queue::wait_for(const Event& event)
{
    if (!event.recorded())
        return;
    const cl_event handle = event.handle()();
    if (detail::active_recordings.load(std::memory_order_relaxed) != 0) [[unlikely]]
        detail::refuse_event_of_recording(*this, handle);
    if (!detail::same_context(handle, context_.handle()())) {
        if (!event.query()) {
            detail::wait_across_contexts(*this, event);
            count_command();
        }
        return;
    }
    check_opencl(clEnqueueBarrierWithWaitList(handle_(), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
    count_command();
}

void Queue::finish()
{
    detail::refuse_while_recording(*this, "a wait for the queue");
    detail::count_blocking_call();
    finish_commands();
    throw_errors();
}

void Queue::finish_commands()
{
    if (caller_ && nothing_enqueued())
        return read_errors_ahead();
    const detail::KernelFloatEnvironment environment;
    detail::settle_barriers();
    read_errors_ahead();
    const std::uint64_t commands = commands_.load(std::memory_order_acquire);
    const detail::Wait wait(runs_on_host(*this));
    check_opencl(clFinish(handle_()), "clFinish");
    finished_commands_.store(commands, std::memory_order_release);
}

// Others may have enqueued commands that nobody counted in a queue that was lent.
bool Queue::nothing_enqueued() const
{
    return !lent_.load(std::memory_order_relaxed) &&
           finished_commands_.load(std::memory_order_acquire) == commands_.load(std::memory_order_acquire);
}

// A marker takes its time on an idle device, too: a new one for each question would never be found complete. So the
// last one is asked as long as no command follows it, and a new one has time for a round trip.
bool Queue::idle()
{
    const std::uint64_t commands = commands_.load(std::memory_order_acquire);
    const bool lent = lent_.load(std::memory_order_relaxed);
    if (nothing_enqueued())
        return true;
    const std::lock_guard lock(idle_mutex_);
    if (last_marker_()) {
        const bool complete = Event(last_marker_).query();
        if (!complete || (!lent && marked_commands_ == commands))
            return complete;
    }
    const Event marker = record();
    last_marker_ = marker.handle();
    marked_commands_ = commands;
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds round_trip{100};
    const auto begin = Clock::now();
    while (!marker.query())
        if (Clock::now() - begin > round_trip)
            return false;
    return true;
}

Event Queue::unfinished()
{
    if (nothing_enqueued())
        return {};
    const std::lock_guard lock(idle_mutex_);
    const std::uint64_t commands = commands_.load(std::memory_order_acquire);
    if (!last_marker_() || lent_.load(std::memory_order_relaxed) || marked_commands_ != commands) {
        last_marker_ = record().handle();
        marked_commands_ = commands;
    } else if (Event(last_marker_).query()) {
        finished_commands_.store(commands, std::memory_order_release);
        return {};
    }
    return Event(last_marker_);
}

}  // namespace clprim
