#include <core/caller_queue.hpp>

#include <algorithm>
#include <atomic>
#include <bit>

#include <clprim/context.hpp>
#include <core/environment.hpp>
#include <core/queue_handle.hpp>

namespace clprim::detail {
namespace {

#ifndef CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL
#define CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL (cl_bitfield{1} << 31)
#endif

// What handing a launch over takes in a sequence of launches until it is done.
constexpr float handing_over_us = 4;
// What a launch takes beside its kernel: on the calling thread, and of the time between the driver's begin and end.
constexpr float enqueue_us = 1, driver_us = 2.5F;
// What it takes of the thread that launches, which does something else after that while the driver's threads work.
constexpr float short_us = 3;
constexpr unsigned launches_between_looks = 64;   // at a kernel that took longer
constexpr std::size_t small_transfer = std::size_t{32} << 10;   // bytes; a core copies them in 2 microseconds

std::atomic<std::uint64_t> caller_count{0};

enum class Choice { never, by_time, always };
Choice choice()
{
    static const Choice value = [] {
        const std::string text = environment("CLPRIM_CALLER_THREAD");
        return text == "0" ? Choice::never : text == "1" ? Choice::always : Choice::by_time;
    }();
    return value;
}

float groups_of(const Range& range)
{
    float groups = 1;
    for (unsigned i = 0; i < range.dims; ++i)
        groups *= static_cast<float>(range.global[i]) / static_cast<float>(std::max<std::size_t>(range.local[i], 1));
    return groups;
}

// Anything may come between the begin and the end of one launch: it counts less than what was seen before, and twice as
// much as it would take to be too long at most.
void learn(LaunchCost& cost, float us, float groups)
{
    const float seen = us / groups;
    if (cost.group_us < 0 || seen < cost.group_us)
        cost.group_us = seen;
    else
        cost.group_us += (std::max(cost.group_us, std::min(seen, 2 * short_us / groups)) - cost.group_us) / 4;
}

// A launch that the driver's threads run: of the first ones more are looked at.
bool worth_a_look(unsigned passed) { return passed % launches_between_looks == 0 || std::has_single_bit(passed); }

// From the event of a launch that the driver's threads ran, once it is done.
void look_at(LaunchCost& cost, unsigned cores)
{
    cl_ulong begin = 0, end = 0;
    if (!cost.measured() || !Event(cost.measured).query())
        return;
    if (clGetEventProfilingInfo(cost.measured(), CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr) ==
            CL_SUCCESS &&
        clGetEventProfilingInfo(cost.measured(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) == CL_SUCCESS &&
        end > begin)
        learn(cost,
              std::max(static_cast<float>(end - begin) / 1000 - driver_us, 0.0F) *
                  std::min(cost.measured_groups, static_cast<float>(cores)),
              cost.measured_groups);
    cost.measured = {};
}

}  // namespace

std::uint64_t commands_by_callers() noexcept { return caller_count; }

std::optional<ExpectedTime> expected_time(LaunchCost& cost, const Range& range, unsigned cores)
{
    look_at(cost, cores);
    if (cost.group_us < 0)
        return std::nullopt;
    const float groups = groups_of(range), alone = cost.group_us * groups;
    return ExpectedTime{alone + enqueue_us, alone / std::min(groups, static_cast<float>(cores)) + handing_over_us};
}

ExpectedTime expected_time_of_transfer(std::size_t bytes)
{
    const float us = static_cast<float>(bytes) / 1e4F;   // 10 GB/s
    return {us + enqueue_us, us + handing_over_us};
}

std::unique_ptr<CallerQueue> CallerQueue::of(const Queue& queue)
{
    const Device& device = queue.device();
    if (device.kind != DeviceKind::cpu || !device.has_extension("cl_intel_exec_by_local_thread") ||
        choice() == Choice::never)
        return nullptr;
    cl_int code = CL_SUCCESS;
    const cl_queue_properties list[] = {
        CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL, 0};
    const cl_command_queue handle =
        clCreateCommandQueueWithProperties(queue.context().handle()(), device.handle(), list, &code);
    return code == CL_SUCCESS ? std::make_unique<CallerQueue>(cl::CommandQueue(handle)) : nullptr;
}

bool CallerQueue::free(Queue& queue)
{
    if (QueueAccess::nothing_enqueued(queue))
        return true;
    const std::lock_guard lock(mutex_);
    if (!last_() || last_commands_ != QueueAccess::commands(queue) || !Event(last_).query())
        return false;
    QueueAccess::set_finished(queue, last_commands_);
    last_ = {};
    return QueueAccess::nothing_enqueued(queue);
}

void CallerQueue::follow(cl_event event, std::uint64_t commands)
{
    const std::lock_guard lock(mutex_);
    last_ = cl::Event(event, true);
    last_commands_ = commands;
}

Placement::Placement(Queue& queue, LaunchCost& cost, const Range& range, ByCaller may_run)
    : queue_(queue), cost_(cost), handle_(QueueAccess::handle(queue))
{
    CallerQueue* const caller = QueueAccess::caller(queue);
    if (!caller)
        return;
    groups_ = groups_of(range);
    look_at(cost, queue.device().compute_units);
    if ((cost.group_us >= 0 && cost.group_us * groups_ <= short_us) || may_run == ByCaller::yes ||
        choice() == Choice::always) {
        if (may_run != ByCaller::no && caller->free(queue)) {
            handle_ = caller->handle();
            by_caller_ = true;
            environment_.emplace();
            started_ = Clock::now();
        } else {
            followed_ = may_run == ByCaller::if_short && caller->often_not_free();
            commands_ = QueueAccess::commands(queue);
        }
    } else {
        caller->end_of_row();
        measured_ = !cost.measured() && worth_a_look(cost.passed++);
    }
}

cl_event Placement::enqueued()
{
    if (by_caller_) {
        const float us = std::chrono::duration<float, std::micro>(Clock::now() - started_).count();
        learn(cost_, std::max(us - enqueue_us, 0.0F), groups_);
        environment_.reset();
        caller_count.fetch_add(1, std::memory_order_relaxed);
    }
    if (event_ && (measured_ || followed_)) {
        kept_ = cl::Event(event_, wanted_);
        if (measured_) {
            cost_.measured = kept_;
            cost_.measured_groups = groups_;
        }
    }
    return wanted_ ? event_ : nullptr;
}

// Where another thread's command was counted in between, which of the two comes last is not known.
void Placement::counted(std::uint64_t before)
{
    if (CallerQueue* const caller = followed_ && before == commands_ ? QueueAccess::caller(queue_) : nullptr)
        caller->follow(kept_(), before + 1);
}

TransferPlace::TransferPlace(Queue& queue, std::size_t bytes, ByCaller may_run)
{
    const bool may = may_run == ByCaller::yes || (may_run == ByCaller::if_short && bytes <= small_transfer);
    CallerQueue* const caller = may ? QueueAccess::caller(queue) : nullptr;
    by_caller_ = caller && caller->free(queue);
    handle_ = by_caller_ ? caller->handle() : QueueAccess::handle(queue);
    if (by_caller_)
        caller_count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace clprim::detail
