#include <core/build_notice.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include <core/environment.hpp>
#include <core/program_cache.hpp>
#include <core/runtime.hpp>

namespace clprim::detail {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds patience{2000};

// The builds of this process. Never destroyed: a thread may still wait in it at exit.
struct Builds {
    std::mutex mutex;
    std::condition_variable changed;
    bool silent = environment("CLPRIM_PROGRESS") == "0";
    bool watched = false;          // a thread waits for the patience to end
    std::size_t done = 0;
    int running = 0;
    Clock::duration spent{};       // with at least one build running
    Clock::time_point since;       // the first of those running began
    std::string device;
    bool kept_by_driver = false;

    void announce()
    {
        const std::string folder = kept_by_driver ? "the driver's own cache" : cache_folder().string();
        const std::string kept = folder.empty() ? "not kept: CLPRIM_CACHE_DIR names a folder that can be written"
                                                : "kept in " + folder + " for the next start";
        log(LogLevel::information,
            fmt::format("compiling kernels for {}, {} so far; they are {}", device, done, kept));
        silent = true;
    }
};

Builds& builds()
{
    static auto* const all = new Builds;
    return *all;
}

// Waits until the builds have taken as long as anybody should be left without a word, or end before that.
void watch()
{
    Builds& all = builds();
    std::unique_lock lock(all.mutex);
    const auto end = all.since + (patience - all.spent);
    if (!all.changed.wait_until(lock, end, [&] { return all.running == 0; }) && !all.silent)
        all.announce();
    all.watched = false;
}

}  // namespace

BuildNotice::BuildNotice(const std::string& device, bool kept_by_driver)
{
    Builds& all = builds();
    const std::lock_guard lock(all.mutex);
    if (all.running++ == 0)
        all.since = Clock::now();
    if (all.silent || all.watched)
        return;
    all.device = device;
    all.kept_by_driver = kept_by_driver;
    if (all.spent >= patience) {
        all.announce();
    } else {
        all.watched = true;
        std::thread(watch).detach();
    }
}

BuildNotice::~BuildNotice()
{
    Builds& all = builds();
    const std::lock_guard lock(all.mutex);
    ++all.done;
    if (--all.running > 0)
        return;
    all.spent += Clock::now() - all.since;
    all.changed.notify_all();
}

}  // namespace clprim::detail
