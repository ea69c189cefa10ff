// With a thread of the test's own as the driver's: a driver may choose places for its threads itself.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include <core/driver_threads.hpp>

using namespace clprim;
using namespace std::chrono_literals;

namespace {

void work_for(std::chrono::nanoseconds time)
{
    for (const auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < time;) {
    }
}

// Works while another thread waits for it, and is idle otherwise.
class Worker {
public:
    Worker() : thread_([this] { run(); }) { id_.wait(0); }
    ~Worker()
    {
        set(State::ended);
        thread_.join();
    }
    std::int64_t id() const { return id_; }
    void begin() { set(State::working); }
    void end() { set(State::idle); }

private:
    enum class State { idle, working, ended };

    void set(State state)
    {
        {
            const std::lock_guard lock(mutex_);
            state_ = state;
        }
        changed_.notify_one();
    }
    void run()
    {
        id_ = detail::thread_id();
        id_.notify_one();
        std::unique_lock lock(mutex_);
        while (state_ != State::ended) {
            changed_.wait(lock, [this] { return state_ != State::idle; });
            lock.unlock();
            work_for(100us);
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    State state_ = State::idle;
    std::atomic<std::int64_t> id_{0};
    std::thread thread_;
};

// A wait of 5 ms in which the waiting thread works, and the other one if it is to.
void wait_beside(Worker& worker, bool works)
{
    detail::DriverThreadLook look;
    look.begin();
    if (works)
        worker.begin();
    const auto start = std::chrono::steady_clock::now();
    work_for(5ms);
    look.end(std::chrono::steady_clock::now() - start);
    worker.end();
    std::this_thread::sleep_for(2ms);       // a place is kept that long, and the thread comes to rest
    detail::make_way_for_driver_threads();
}

// Waits until the thread may run on so many CPUs. Other programs may keep it, or this one, from a wait's work.
bool reaches(Worker& worker, bool works, std::size_t cpus)
{
    for (int n = 0; n < 1000 && detail::cpus_of(worker.id()).count() != cpus; ++n)
        wait_beside(worker, works);
    return detail::cpus_of(worker.id()).count() == cpus;
}

TEST(DriverThreads, LeaveTheLaunchingThreadItsCpu)
{
    const std::size_t cpus = detail::cpus_of(detail::thread_id()).count();
    if (detail::threads().empty() || cpus < 2)
        GTEST_SKIP() << "the system does not say what threads do, or this process has one CPU only";
    Worker worker;
    const char* setting = std::getenv("CLPRIM_PLACE_THREADS");
    if (setting && std::string(setting) == "0") {
        for (int n = 0; n < 20; ++n) {
            wait_beside(worker, true);
            ASSERT_EQ(detail::cpus_of(worker.id()).count(), cpus);
        }
        return;
    }
    // One wait may be of some other thread's work.
    wait_beside(worker, true);
    EXPECT_EQ(detail::cpus_of(worker.id()).count(), cpus);
    EXPECT_TRUE(reaches(worker, true, cpus - 1));
    // Idle as often as it worked it is no driver's, and may run where it might before.
    EXPECT_TRUE(reaches(worker, false, cpus));
}

}  // namespace
