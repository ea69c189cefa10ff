#include <core/openmp_threads.hpp>

#include <atomic>
#include <chrono>

#include <core/driver_threads.hpp>
#include <core/environment.hpp>
#include <core/system.hpp>

namespace clprim::detail {
namespace {

using Pause = int (*)(int kind);
constexpr auto between_looks = std::chrono::milliseconds(2);
constexpr int soft_pause = 1;   // omp_pause_soft: what was set, as the number of threads, stays

// Looked for again now and then: the other runtime may be loaded after this one.
Pause pause_function() noexcept
{
    static std::atomic<Pause> found{nullptr};
    static std::atomic<unsigned> asked{0};
    constexpr unsigned between = 64;
    Pause function = found.load(std::memory_order_relaxed);
    if (!function && asked.fetch_add(1, std::memory_order_relaxed) % between == 0) {
        function = reinterpret_cast<Pause>(loaded_function("omp_pause_resource_all"));
        found.store(function, std::memory_order_relaxed);
    }
    return function;
}

bool allowed() noexcept
{
    static const bool value = environment("CLPRIM_PAUSE_OPENMP") != "0";
    return value;
}

}  // namespace

void pause_openmp_threads(bool device_busy) noexcept
{
    if (!allowed())
        return;
    // A look takes as long as two launches.
    using Clock = std::chrono::steady_clock;
    static std::atomic<Clock::rep> last{0};
    const Clock::duration now = Clock::now().time_since_epoch();
    if (device_busy && now - Clock::duration(last.load(std::memory_order_relaxed)) < between_looks)
        return;
    last.store(now.count(), std::memory_order_relaxed);
    // Threads that sleep cost nothing, and milliseconds go by until they have awoken to end, behind the device's own.
    if (const Pause pause = pause_function(); pause && others_at_work(device_busy))
        pause(soft_pause);
}

}  // namespace clprim::detail
