#include <core/wait.hpp>

#include <core/openmp_threads.hpp>

namespace clprim::detail {
namespace {

constexpr auto long_wait = std::chrono::milliseconds(1);
constexpr auto watched_wait = std::chrono::microseconds(50);    // shows which threads work, and is ten times a look
thread_local bool watches = false;          // the next wait
thread_local bool first_launch = false;     // since a long wait

}  // namespace

void before_launch() noexcept
{
    make_way_for_driver_threads();
    // Later the device's threads would have the cores on which the others are to end.
    if (first_launch) {
        first_launch = false;
        pause_openmp_threads(false);
    }
}

Wait::Wait(bool on_host) noexcept : on_host_(on_host)
{
    if (on_host)
        make_way_for_driver_threads();
    if (on_host && watches)
        look_.begin();
    started_ = std::chrono::steady_clock::now();
}

Wait::~Wait()
{
    const auto waited = std::chrono::steady_clock::now() - started_;
    first_launch = on_host_ && waited > long_wait;
    watches = on_host_ && waited > watched_wait;
    if (watches)
        look_.end(waited);
}

}  // namespace clprim::detail
