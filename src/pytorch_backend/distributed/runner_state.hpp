// What the parts of Runner share.
#pragma once

#include <set>

#include <ATen/core/LegacyTypeDispatch.h>

#include <distributed/runner.hpp>

namespace torch_ocl::distributed {

constexpr int most_in_flight = 6;   // chunks in host memory of their own

// A gate with a number of places.
class Places {
public:
    void take()
    {
        std::unique_lock lock(mutex_);
        freed_.wait(lock, [&] { return free_ > 0; });
        --free_;
    }
    void leave()
    {
        {
            const std::lock_guard lock(mutex_);
            ++free_;
        }
        freed_.notify_one();
    }

private:
    std::mutex mutex_;
    std::condition_variable freed_;
    int free_ = most_in_flight;
};

struct Runner::State {
    std::shared_ptr<Strand> posting = std::make_shared<Strand>(), completing = std::make_shared<Strand>();
    std::shared_ptr<Places> places = std::make_shared<Places>();
    std::mutex mutex;
    std::map<int, std::shared_ptr<Lanes>> lanes;                              // by device
    std::map<std::tuple<bool, int, int>, std::shared_ptr<Strand>> messages;   // by direction, peer and tag
    std::map<int, std::int64_t> sent;                                         // messages by peer
    std::set<Work*> pending;

    void add(Work* work)
    {
        const std::lock_guard lock(mutex);
        pending.insert(work);
    }
    void remove(Work* work)
    {
        const std::lock_guard lock(mutex);
        pending.erase(work);
    }
    std::shared_ptr<Strand> strand(bool sends, int peer, int tag)
    {
        const std::lock_guard lock(mutex);
        if (messages.size() > 256)
            std::erase_if(messages, [](const auto& entry) { return entry.second->idle(); });
        auto& strand = messages[{sends, peer, tag}];
        if (!strand)
            strand = std::make_shared<Strand>();
        return strand;
    }
};

// Ends a work with an error that says which operation it was, and the group where nothing can follow.
void fail(Work& work, Engine& engine, const std::exception& error, bool transport);

// Runs one stage; what goes wrong ends the work. `transport` tells whether the group ends with it.
template <class Function>
bool guarded(Work& work, Engine& engine, bool transport, Function&& function)
{
    if (work.isCompleted() && !work.isSuccess())
        return false;
    try {
        engine.check_usable("not begun");
        const at::AutoDispatchBelowADInplaceOrView no_autograd;
        function();
        return true;
    }
    catch (const Disagreement& error) {
        fail(work, engine, error, false);
        return false;
    }
    catch (const std::exception& error) {
        fail(work, engine, error, transport);
        return false;
    }
}

}  // namespace torch_ocl::distributed
