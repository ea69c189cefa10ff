#include <clprim/queue.hpp>

#include <clprim/memory_history.hpp>
#include <core/blocking.hpp>
#include <core/event_bridge.hpp>
#include <core/float_environment.hpp>

namespace clprim {
namespace {

std::atomic<std::uint64_t> blocking_call_count{0};
std::atomic<BlockingHook> blocking_hook{nullptr};

}  // namespace

namespace detail {

void count_blocking_call() { blocking_call_count.fetch_add(1, std::memory_order_relaxed); }

void count_blocking_transfer(const char* what)
{
    count_blocking_call();
    if (const BlockingHook hook = blocking_hook.load(std::memory_order_relaxed)) [[unlikely]]
        hook(what);
}

}  // namespace detail

void set_blocking_hook(BlockingHook hook) noexcept { blocking_hook = hook; }

std::uint64_t blocking_calls() noexcept { return blocking_call_count; }

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
    detail::count_blocking_call();
    detail::settle_barriers();
    const cl_event event = handle_();
    const detail::KernelFloatEnvironment environment;   // this thread may run kernels meanwhile
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
        check_opencl(clGetEventProfilingInfo(event(), CL_PROFILING_COMMAND_END, sizeof value, &value, nullptr),
                     "clGetEventProfilingInfo");
        return value;
    };
    const cl_ulong first = time(handle_), last = time(end.handle_);
    return (static_cast<double>(last) - static_cast<double>(first)) * 1e-6;
}

}  // namespace clprim
