#include <clprim/queue.hpp>

#include <cstring>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <clprim/memory_history.hpp>
#include <core/dry_run.hpp>
#include <core/environment.hpp>
#include <core/event_bridge.hpp>
#include <core/loaded_program.hpp>
#include <core/poison.hpp>
#include <core/profile.hpp>
#include <core/recording.hpp>

namespace clprim {
namespace {

std::atomic<std::uint64_t> blocking_call_count{0};
std::atomic<std::uint64_t> kernel_launch_count{0};

std::atomic<BlockingHook> blocking_hook{nullptr};

void count_blocking_call() { blocking_call_count.fetch_add(1, std::memory_order_relaxed); }

// A transfer that waits, where nobody asked for a wait by name.
void count_blocking_transfer(const char* what)
{
    count_blocking_call();
    if (const BlockingHook hook = blocking_hook.load(std::memory_order_relaxed)) [[unlikely]]
        hook(what);
}

// CLPRIM_SYNC=1 waits after every launch, so that a fault shows at the kernel that caused it.
bool synchronous_launches()
{
    static const bool value = !environment("CLPRIM_SYNC").empty() && environment("CLPRIM_SYNC") != "0";
    return value;
}

// Devices may share an OpenCL context, so the driver would take another device's memory: in no order with its work.
void require_here(const Queue& queue, const Block& block)
{
    if (block.context != &queue.context()) [[unlikely]]
        throw InvalidArgument(fmt::format("Expected all tensors to be on the same device, but found at least two "
                                          "devices: {} ({}) and {} ({})",
                                          queue.device().index, queue.device().name, block.context->device().index,
                                          block.context->device().name));
}

// The whole of a block's room may be used, which is more than was asked for.
void require_inside(const Block& block, std::size_t offset, std::size_t bytes, const char* what)
{
    if (offset > block.size || bytes > block.size - offset) [[unlikely]]
        throw InvalidArgument(fmt::format("Queue::{}: {} bytes from byte {} on reach beyond a block of {} bytes", what,
                                          bytes, offset, block.size));
}

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

void set_blocking_hook(BlockingHook hook) noexcept { blocking_hook = hook; }

std::uint64_t blocking_calls() noexcept { return blocking_call_count; }
std::uint64_t kernel_launches() noexcept { return kernel_launch_count; }

Range Range::linear(std::size_t n, std::size_t local)
{
    Range range;
    range.local = {local, 1, 1};
    range.global = {round_up(std::max<std::size_t>(n, 1), local), 1, 1};
    return range;
}

Range Range::groups(std::array<std::size_t, 3> groups, std::array<std::size_t, 3> local)
{
    Range range;
    range.local = local;
    for (int i = 0; i < 3; ++i) {
        range.global[i] = groups[i] * local[i];
        if (range.global[i] > 1)
            range.dims = i + 1;
    }
    return range;
}

Launch& Launch::set(std::size_t bytes, const void* value)
{
    if (!value && bytes == 0)
        bytes = 1;   // a __local argument that this launch does not use: OpenCL wants at least a byte
    if (detail::dry_run()) [[unlikely]] {
        if (!value)
            detail::add_local_argument(kernel_, bytes);
        return *this;
    }
    if (!kernel_.handle()) [[unlikely]]
        detail::restore_kernel(kernel_);
    if (detail::recording(queue_)) [[unlikely]]
        detail::record_argument(next_, bytes, value);
    const cl_int code = clSetKernelArg(kernel_.handle(), next_, bytes, value);
    if (code != CL_SUCCESS) [[unlikely]]
        throw OpenCLError("clSetKernelArg", code,
                          fmt::format("kernel {}, argument {} of {} bytes; it takes {} arguments", kernel_.name, next_,
                                      bytes, kernel_.argument_count));
    ++next_;
    return *this;
}

Launch& Launch::memory(const Block& block, std::uint64_t offset)
{
    require_here(queue_, block);
    const cl_ulong elements = offset;
    set(sizeof(cl_mem), &block.buffer);
    return set(sizeof elements, &elements);
}

Launch& Launch::arg(NoTensor)
{
    const cl_mem none = nullptr;
    const cl_ulong zero = 0;
    set(sizeof none, &none);
    return set(sizeof zero, &zero);
}

void Launch::run(const Range& range)
{
    if (detail::dry_run()) [[unlikely]]
        return detail::log_launch(kernel_, range);
    require(next_ == kernel_.argument_count, "kernel ", kernel_.name, " takes ", kernel_.argument_count,
            " arguments, got ", next_);
    if (!kernel_.handle()) [[unlikely]]   // of no arguments
        detail::restore_kernel(kernel_);
    if (detail::poisons_local_memory()) [[unlikely]]
        detail::poison_local_memory(queue_, kernel_);
    if (Recording::State* recording = detail::recording(queue_)) [[unlikely]]
        return detail::record_kernel(*recording, kernel_, range);
    const std::size_t* local = range.local[0] ? range.local.data() : nullptr;
    const bool profiled = detail::profiling();
    const std::int64_t enqueue_started = profiled ? detail::profile_time() : 0;
    cl_event event = nullptr;
    const cl_int code = clEnqueueNDRangeKernel(queue_.handle()(), kernel_.handle(), range.dims, nullptr,
                                               range.global.data(), local, 0, nullptr, profiled ? &event : nullptr);
    if (code != CL_SUCCESS) [[unlikely]]
        check_opencl(code, "clEnqueueNDRangeKernel",
                     fmt::format("kernel {}, global {}x{}x{}, local {}x{}x{}", kernel_.name, range.global[0],
                                 range.global[1], range.global[2], range.local[0], range.local[1], range.local[2]));
    kernel_launch_count.fetch_add(1, std::memory_order_relaxed);
    if (profiled) [[unlikely]] {
        ProfiledCommand command;
        command.name = kernel_.name;
        command.enqueue_started = enqueue_started;
        command.global = range.global;
        command.local = range.local;
        detail::add_command(queue_, event, std::move(command));
    }
    if (synchronous_launches()) [[unlikely]]
        check_opencl(clFinish(queue_.handle()()), "clFinish", kernel_.name);
    else
        queue_.flush_now_and_then();
}

bool Event::query() const
{
    if (!recorded())
        return true;
    cl_int status = CL_QUEUED;
    check_opencl(clGetEventInfo(handle_(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
                 "clGetEventInfo");
    return status <= CL_COMPLETE;
}

void Event::wait() const
{
    if (!recorded())
        return;
    count_blocking_call();
    detail::settle_barriers();
    const cl_event event = handle_();
    check_opencl(clWaitForEvents(1, &event), "clWaitForEvents");
}

namespace {

cl_device_id device_of(cl_event event)
{
    cl_command_queue queue = nullptr;
    cl_device_id device = nullptr;
    check_opencl(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, nullptr), "clGetEventInfo");
    check_opencl(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr),
                 "clGetCommandQueueInfo");
    return device;
}

}  // namespace

double Event::elapsed_ms(const Event& end) const
{
    require(recorded() && end.recorded(), "elapsed time: both events must be recorded");
    require(device_of(handle_()) == device_of(end.handle_()),
            "elapsed time: the events are of different devices, whose clocks cannot be compared");
    wait();
    end.wait();
    auto time = [](const cl::Event& event) {
        cl_ulong value = 0;
        clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_END, sizeof value, &value, nullptr);
        return value;
    };
    const cl_ulong first = time(handle_), last = time(end.handle_);
    return (static_cast<double>(last) - static_cast<double>(first)) * 1e-6;
}

namespace {

// Queues with an even id, the default apart, are those of high priority, where a driver knows of it.
bool has_high_priority(const Device& device, int id)
{
    return id > 0 && id % 2 == 0 && device.version >= 200 && device.has_extension("cl_khr_priority_hints");
}

}  // namespace

Queue::Queue(Context& context, int id, bool profiling) : context_(context), id_(id)
{
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

Queue::~Queue() = default;

const Device& Queue::device() const { return context_.device(); }

void Queue::flush() { check_opencl(clFlush(handle_()), "clFlush"); }

void Queue::flush_now_and_then()
{
    // Some drivers start nothing before a flush; one per launch would double the cost of a launch.
    constexpr unsigned launches_per_flush = 16;
    if (++unflushed_ % launches_per_flush == 0)
        clFlush(handle_());
}

void Queue::write(Block& target, std::size_t offset_bytes, const void* source, std::size_t bytes, bool pinned)
{
    if (bytes == 0)
        return;
    require_here(*this, target);
    require_inside(target, offset_bytes, bytes, "write");
    require(source != nullptr, "Queue::write: the source is null");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]] {
        detail::record_write(*recording, target, offset_bytes, source, bytes, pinned);
        if (pinned)
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
        count_blocking_transfer("a copy of pageable memory to the device");
        detail::settle_barriers();
    }
    const bool profiled = detail::profiling();
    const std::int64_t enqueue_started = profiled ? detail::profile_time() : 0;
    check_opencl(clEnqueueWriteBuffer(handle_(), target.buffer, blocking, target.offset + offset_bytes, bytes, from, 0,
                                      nullptr, staging || profiled ? &event : nullptr),
                 "clEnqueueWriteBuffer");
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
    staging.data = std::make_unique<char[]>(staging.bytes);
    staging.taken = true;
    staging_bytes_ += staging.bytes;
    return &staging;
}

void Queue::read(const Block& source, std::size_t offset_bytes, void* target, std::size_t bytes, bool pinned)
{
    if (bytes == 0)
        return;
    require_here(*this, source);
    require_inside(source, offset_bytes, bytes, "read");
    require(target != nullptr, "Queue::read: the target is null");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]] {
        if (!pinned)
            detail::refuse_while_recording(*this, "a copy to pageable memory of the host");
        return detail::record_read(*recording, source, offset_bytes, target, bytes);
    }
    if (!pinned) {
        count_blocking_transfer("a copy from the device to the host");
        detail::settle_barriers();
        read_errors_ahead();
    }
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
    require_here(*this, source);
    require_here(*this, target);
    require_inside(source, source_bytes, bytes, "copy");
    require_inside(target, target_bytes, bytes, "copy");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]]
        return detail::record_copy(*recording, source, source_bytes, target, target_bytes, bytes);
    detail::CommandEvent event(*this, ProfiledCommand::Kind::copy, bytes);
    check_opencl(clEnqueueCopyBuffer(handle_(), source.buffer, target.buffer, source.offset + source_bytes,
                                     target.offset + target_bytes, bytes, 0, nullptr, event.pointer()),
                 "clEnqueueCopyBuffer");
    event.keep();
    flush_now_and_then();
}

void Queue::fill(Block& target, std::size_t offset_bytes, std::size_t bytes, const void* pattern,
                 std::size_t pattern_bytes)
{
    if (bytes == 0)
        return;
    require_here(*this, target);
    require_inside(target, offset_bytes, bytes, "fill");
    if (Recording::State* recording = detail::recording(*this)) [[unlikely]]
        return detail::record_fill(*recording, target, offset_bytes, bytes, pattern, pattern_bytes);
    detail::CommandEvent event(*this, ProfiledCommand::Kind::fill, bytes);
    check_opencl(clEnqueueFillBuffer(handle_(), target.buffer, pattern, pattern_bytes, target.offset + offset_bytes,
                                     bytes, 0, nullptr, event.pointer()),
                 "clEnqueueFillBuffer");
    event.keep();
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
        if (!event.query())
            detail::wait_across_contexts(*this, event);
        return;
    }
    check_opencl(clEnqueueBarrierWithWaitList(handle_(), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
}

void Queue::finish()
{
    detail::refuse_while_recording(*this, "a wait for the queue");
    count_blocking_call();
    detail::settle_barriers();
    read_errors_ahead();
    check_opencl(clFinish(handle_()), "clFinish");
    throw_errors();
}

bool Queue::idle() { return record().query(); }

}  // namespace clprim
