// Threads that outlive no work: tasks run at once, each on an idle thread or a new one; strands run theirs in order.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace torch_ocl::distributed {

using Task = std::function<void()>;   // must not throw

// Runs the task on a thread of its own: it may wait for as long as it likes.
void run_in_background(Task task);

// Waits until no task runs or is left to run; not longer than that, since a task may wait for a peer that is no more.
void wait_for_background_tasks(std::chrono::milliseconds at_most);

// Tasks of one strand run one after another, in the order in which they came.
class Strand : public std::enable_shared_from_this<Strand> {
public:
    void push(Task task);
    void run(Task task);   // here and now if nothing is before it; what comes meanwhile waits for its end
    bool idle() const;

private:
    void drain();

    mutable std::mutex mutex_;
    std::deque<Task> tasks_;
    bool running_ = false;
};

}  // namespace torch_ocl::distributed
