#include <core/driver_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include <core/environment.hpp>

namespace clprim::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Of more threads one that waits for its CPU costs little, and placing them all takes longer.
constexpr std::size_t most_threads = 7;
// Threads of a program that launch in turns are not followed at every turn.
constexpr auto shortest_stay = std::chrono::milliseconds(1);

// A thread that worked while another waited. It is taken for the driver's after a second time, and for something else
// again, as a thread of OpenMP's that spun, once it has been idle as often as it worked.
struct Worker {
    static constexpr int enough = 2, most = 4;

    std::int64_t id;
    int times = 1;          // worked, less those idle
    bool placed = false;
    CpuSet allowed{};       // before it was kept off a CPU
};

struct Placement {
    std::mutex mutex;
    std::vector<Worker> workers;
    Clock::time_point placed{};
};

std::atomic<bool> any_threads{false};
std::atomic<int> free_cpu{-1};              // that the threads are kept off
std::atomic<unsigned> long_waits{0};

// Never destroyed: a thread may wait while the process ends.
Placement& placement()
{
    static auto* const value = new Placement;
    return *value;
}

bool allowed() noexcept
{
    static const bool value = environment("CLPRIM_PLACE_THREADS") != "0";
    return value;
}

}  // namespace

void make_way_for_driver_threads() noexcept
{
    if (!any_threads.load(std::memory_order_relaxed))
        return;
    const int cpu = current_cpu();
    if (cpu < 0 || cpu == free_cpu.load(std::memory_order_relaxed))
        return;
    Placement& state = placement();
    const std::unique_lock lock(state.mutex, std::try_to_lock);
    const auto now = Clock::now();
    if (!lock || now - state.placed < shortest_stay)
        return;
    std::erase_if(state.workers, [cpu](const Worker& worker) {
        CpuSet others = worker.allowed;
        others.reset(static_cast<std::size_t>(cpu));
        return worker.placed && !run_on(worker.id, others);
    });
    any_threads = std::ranges::any_of(state.workers, &Worker::placed);
    free_cpu = cpu;
    state.placed = now;
}

bool others_at_work(bool device_busy) noexcept
try {
    constexpr auto moment = std::chrono::microseconds(4);
    constexpr std::size_t most = 64;    // of more it is not asked
    static auto* const known = new std::vector<std::int64_t>;
    Placement& state = placement();
    const std::unique_lock lock(state.mutex, std::try_to_lock);
    if (!lock)
        return true;
    if (thread_count() != known->size())
        *known = threads();
    if (known->empty() || known->size() > most)
        return true;
    std::array<std::chrono::nanoseconds, most> before;
    std::ranges::transform(*known, before.begin(), [](std::int64_t id) { return running_time(id); });
    const auto started = Clock::now();
    while (Clock::now() - started < moment) {
    }
    bool found = false;
    for (std::size_t k = 0; k < known->size(); ++k) {
        const std::int64_t id = (*known)[k];
        const auto worker = std::ranges::find(state.workers, id, &Worker::id);
        const bool drivers = device_busy && worker != state.workers.end() && worker->placed;
        const bool other = id != thread_id() && !drivers;
        found |= other && running_time(id) - before[k] > moment / 2;
    }
    if (found)      // and may be about to go, for others to come
        known->clear();
    return found;
} catch (...) {     // no memory
    return true;
}

void DriverThreadLook::begin() noexcept
try {
    constexpr unsigned first_ones = 16, one_in = 64;
    const unsigned number = long_waits.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!allowed() || (number > first_ones && number % one_in != 0))
        return;
    for (const std::int64_t id : threads())
        before_.push_back({id, running_time(id)});
} catch (...) {     // no memory: another time
    before_.clear();
}

// Which threads other than the calling one worked for a good part of a wait; not said if that one did not, or too many.
std::optional<std::vector<std::int64_t>> DriverThreadLook::at_work(std::chrono::nanoseconds waited) const
{
    std::vector<std::int64_t> ids;
    bool waiting_one = false;
    for (const Thread& thread : before_) {
        if (running_time(thread.id) - thread.running <= waited / 8)     // others may want its CPU, too
            continue;
        if (thread.id == thread_id())
            waiting_one = true;
        else
            ids.push_back(thread.id);
    }
    return waiting_one && ids.size() <= most_threads ? std::optional(std::move(ids)) : std::nullopt;
}

void DriverThreadLook::end(std::chrono::nanoseconds waited) noexcept
try {
    if (before_.empty())
        return;
    const auto ids = at_work(waited);
    if (!ids)
        return;
    Placement& state = placement();
    const std::lock_guard lock(state.mutex);
    std::erase_if(state.workers, [&](Worker& worker) {
        const bool worked = std::ranges::find(*ids, worker.id) != ids->end();
        worker.times = std::min(worker.times + (worked ? 1 : -1), Worker::most);
        if (worker.times <= 0 && worker.placed)
            run_on(worker.id, worker.allowed);
        return worker.times <= 0;
    });
    for (const std::int64_t id : *ids) {
        if (std::ranges::find(state.workers, id, &Worker::id) == state.workers.end())
            state.workers.push_back({.id = id});
    }
    const CpuSet here = cpus_of(thread_id());
    for (Worker& worker : state.workers) {
        // One that may not go where this thread may has a place that somebody chose.
        if (worker.placed || worker.times < Worker::enough || here.count() <= ids->size() || cpus_of(worker.id) != here)
            continue;
        worker.placed = true;
        worker.allowed = here;
        free_cpu = -1;      // they are placed at the next launch
    }
    any_threads = std::ranges::any_of(state.workers, &Worker::placed);
} catch (...) {     // no memory
}

}  // namespace clprim::detail
