#include <core/event_bridge.hpp>

#include <atomic>
#include <list>
#include <map>
#include <vector>

#include <core/queue_handle.hpp>

namespace clprim::detail {
namespace {

struct Bridge {
    cl::Event awaited;
    cl::Event signal;    // the user event that the barrier waits for
    const Queue* queue;
    std::atomic<bool> lifted{false};
};

// Never destroyed: callbacks may outlive static objects.
struct Bridges {
    std::mutex mutex;
    std::list<std::shared_ptr<Bridge>> pending;   // oldest first: none waits for a later one
    std::atomic<std::size_t> pending_count{0};
    std::map<const Queue*, cl_int> failures;
    std::atomic<bool> failed{false};

    void add(const std::shared_ptr<Bridge>& bridge)
    {
        const std::lock_guard lock(mutex);
        pending.push_back(bridge);
        ++pending_count;
    }
    void remove(const std::shared_ptr<Bridge>& bridge)
    {
        const std::lock_guard lock(mutex);
        pending_count -= pending.remove(bridge);
    }
    void fail(const Queue* queue, cl_int code)
    {
        const std::lock_guard lock(mutex);
        failures[queue] = code;
        failed = true;
    }
};
Bridges& bridges()
{
    static auto* const all = new Bridges;
    return *all;
}

// Once for each bridge, whoever comes first. The status is asked for, since not every driver hands it to its callback.
void lift(const std::shared_ptr<Bridge>& bridge) noexcept
{
    if (bridge->lifted.exchange(true))
        return;
    cl_int status = CL_COMPLETE;
    clGetEventInfo(bridge->awaited(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    if (status < 0)
        bridges().fail(bridge->queue, status);
    clSetUserEventStatus(bridge->signal(), CL_COMPLETE);
    bridges().remove(bridge);
}

// Runs in a thread of the awaited event's driver, or at once in the thread that set it.
void CL_CALLBACK called_back(cl_event, cl_int, void* data)
{
    const std::unique_ptr<std::shared_ptr<Bridge>> bridge(static_cast<std::shared_ptr<Bridge>*>(data));
    lift(*bridge);
}

void wait_and_lift(const std::shared_ptr<Bridge>& bridge) noexcept
{
    const cl_event awaited = bridge->awaited();
    clWaitForEvents(1, &awaited);   // its failure is found by lift
    lift(bridge);
}

}  // namespace

bool same_context(cl_event event, cl_context context)
{
    cl_context owner = nullptr;
    check_opencl(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof owner, &owner, nullptr), "clGetEventInfo");
    return owner == context;
}

void wait_across_contexts(const Queue& queue, const Event& event)
{
    cl_int code = CL_SUCCESS;
    const auto bridge = std::make_shared<Bridge>();
    bridge->awaited = event.handle();
    bridge->queue = &queue;
    bridge->signal = cl::Event(clCreateUserEvent(queue.context().handle()(), &code));
    if (code != CL_SUCCESS)   // no user events: the host waits
        return event.wait();
    const cl_event signal = bridge->signal();
    check_opencl(clEnqueueBarrierWithWaitList(QueueAccess::handle(queue), 1, &signal, nullptr),
                 "clEnqueueBarrierWithWaitList");
    bridges().add(bridge);
    auto data = std::make_unique<std::shared_ptr<Bridge>>(bridge);
    if (clSetEventCallback(event.handle()(), CL_COMPLETE, called_back, data.get()) == CL_SUCCESS)
        static_cast<void>(data.release());   // to the callback, which may have run already
    else
        wait_and_lift(bridge);   // no callbacks: the host waits
}

void settle_barriers() noexcept
{
    Bridges& all = bridges();
    if (all.pending_count.load(std::memory_order_relaxed) == 0) [[likely]]
        return;
    std::vector<std::shared_ptr<Bridge>> now;
    {
        const std::lock_guard lock(all.mutex);
        now.assign(all.pending.begin(), all.pending.end());
    }
    for (const auto& bridge : now)
        wait_and_lift(bridge);
}

void throw_awaited_failure(const Queue& queue)
{
    Bridges& all = bridges();
    if (!all.failed.load(std::memory_order_relaxed)) [[likely]]
        return;
    cl_int code = CL_SUCCESS;
    {
        const std::lock_guard lock(all.mutex);
        if (const auto found = all.failures.find(&queue); found != all.failures.end()) {
            code = found->second;
            all.failures.erase(found);
        }
        all.failed = !all.failures.empty();
    }
    check_opencl(code, "clSetEventCallback", "work of another device that this queue waited for has failed");
}

}  // namespace clprim::detail
