#include <core/wait.hpp>

#include <core/openmp_threads.hpp>

namespace clprim::detail {
namespace {

constexpr auto long_wait = std::chrono::milliseconds(1);
thread_local bool waited_long = false;

}  // namespace

Wait::Wait(bool on_host) noexcept
{
    if (on_host)
        make_way_for_driver_threads();
    if (on_host && waited_long) {
        pause_openmp_threads();
        look_.begin();
    }
    started_ = std::chrono::steady_clock::now();
}

Wait::~Wait()
{
    const auto waited = std::chrono::steady_clock::now() - started_;
    waited_long = waited > long_wait;
    if (waited_long)
        look_.end(waited);
}

}  // namespace clprim::detail
