#include <distributed/threads.hpp>

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

    void wait(std::chrono::milliseconds at_most)
    {
        std::unique_lock lock(mutex_);
        rested_.wait_for(lock, at_most, [&] { return tasks_.empty() && busy_ == 0; });
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
                ++busy_;
                lock.unlock();
                task();
            }   // what the task holds goes before the lock comes back
            lock.lock();
            --busy_;
            if (tasks_.empty() && busy_ == 0)
                rested_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable arrived_, rested_;
    std::deque<Task> tasks_;
    std::size_t idle_ = 0, busy_ = 0;
};

Pool& pool()
{
    static auto* const instance = new Pool;   // never destroyed: its threads may wait for a peer when the process ends
    return *instance;
}

}  // namespace

void run_in_background(Task task) { pool().run(std::move(task)); }
void wait_for_background_tasks(std::chrono::milliseconds at_most) { pool().wait(at_most); }

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
