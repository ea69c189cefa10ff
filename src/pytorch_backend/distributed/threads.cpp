#include <distributed/threads.hpp>

#include <chrono>
#include <condition_variable>
#include <thread>

#include <c10/util/thread_name.h>

namespace torch_ocl::distributed {
namespace {

class Pool {
public:
    void run(Task task)
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        if (idle_ < tasks_.size())
            std::thread([this] { work(); }).detach();
        else
            arrived_.notify_one();
    }

private:
    void work()
    {
        c10::setThreadName("pt_occl");
        std::unique_lock lock(mutex_);
        while (true) {
            ++idle_;
            const bool some = arrived_.wait_for(lock, std::chrono::seconds(20), [&] { return !tasks_.empty(); });
            --idle_;
            if (!some)
                return;
            {
                Task task = std::move(tasks_.front());
                tasks_.pop_front();
                lock.unlock();
                task();
            }   // what the task holds goes before the lock comes back
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<Task> tasks_;
    std::size_t idle_ = 0;
};

}  // namespace

void run_in_background(Task task)
{
    static auto* const pool = new Pool;   // never destroyed: its threads may wait for a peer when the process ends
    pool->run(std::move(task));
}

void Strand::push(Task task)
{
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (running_)
        return;
    running_ = true;
    run_in_background([self = shared_from_this()] { self->drain(); });
}

void Strand::run(Task task)
{
    {
        const std::lock_guard lock(mutex_);
        if (running_) {
            tasks_.push_back(std::move(task));
            return;
        }
        running_ = true;
    }
    task();
    const std::lock_guard lock(mutex_);
    running_ = !tasks_.empty();
    if (running_)
        run_in_background([self = shared_from_this()] { self->drain(); });
}

bool Strand::idle() const
{
    const std::lock_guard lock(mutex_);
    return !running_;
}

void Strand::drain()
{
    while (true) {
        Task task;
        {
            const std::lock_guard lock(mutex_);
            if (tasks_.empty()) {
                running_ = false;
                return;
            }
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        task();
    }
}

}  // namespace torch_ocl::distributed
