#include <core/driver_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>

#include <core/environment.hpp>

namespace clprim::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Of more threads one that waits for its CPU costs little, and placing them all takes longer.
constexpr std::size_t most_threads = 7;
// Threads of a program that launch in turns are not followed at every turn.
constexpr auto shortest_stay = std::chrono::milliseconds(1);

struct DriverThread {
    std::int64_t id;
    CpuSet allowed;     // before it was kept off one
};

struct Placement {
    std::mutex mutex;
    std::vector<DriverThread> threads;
    std::vector<std::int64_t> candidates;   // of the last look
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
    std::erase_if(state.threads, [cpu](const DriverThread& thread) {
        CpuSet others = thread.allowed;
        others.reset(static_cast<std::size_t>(cpu));
        return !run_on(thread.id, others);
    });
    any_threads = !state.threads.empty();
    free_cpu = cpu;
    state.placed = now;
}

bool others_at_work() noexcept
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
        const bool other = id != thread_id() &&
                           std::ranges::find(state.threads, id, &DriverThread::id) == state.threads.end();
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
    const unsigned number = long_waits.fetch_add(1, std::memory_order_relaxed) + 1;
    constexpr unsigned first_ones = 4;
    if (allowed() && (number <= first_ones || std::has_single_bit(number)))
        for (const std::int64_t id : threads())
            before_.push_back({id, running_time(id)});
} catch (...) {     // no memory: another time
    before_.clear();
}

// Which threads other than the calling one worked for a good part of a wait; none if that one did not, or too many.
std::vector<std::int64_t> DriverThreadLook::at_work(std::chrono::nanoseconds waited) const
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
    return waiting_one && ids.size() <= most_threads ? ids : std::vector<std::int64_t>{};
}

void DriverThreadLook::end(std::chrono::nanoseconds waited) noexcept
try {
    if (before_.empty())
        return;
    std::vector<std::int64_t> now = at_work(waited);
    Placement& state = placement();
    const std::lock_guard lock(state.mutex);
    for (const std::int64_t id : now) {
        if (std::ranges::find(state.candidates, id) == state.candidates.end() ||
            std::ranges::find(state.threads, id, &DriverThread::id) != state.threads.end())
            continue;
        // One that may not go where this thread may has a place that somebody chose.
        const CpuSet cpus = cpus_of(id);
        if (cpus == cpus_of(thread_id()) && cpus.count() > state.threads.size() + 1) {
            state.threads.push_back({id, cpus});
            any_threads = true;
            free_cpu = -1;
        }
    }
    state.candidates = std::move(now);
} catch (...) {
    before_.clear();
}

}  // namespace clprim::detail
