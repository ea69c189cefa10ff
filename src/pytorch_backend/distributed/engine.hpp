// The engine that a group communicates by: a c10d backend for tensors in host memory, made when it is first needed, and
// the agreement of all ranks on what comes next.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace torch_ocl::distributed {

using Inner = c10::intrusive_ptr<c10d::Backend>;
using Milliseconds = std::chrono::milliseconds;
// Makes the engine of a group; takes Python's lock where it needs it.
using EngineFactory =
    std::function<Inner(const c10::intrusive_ptr<c10d::Store>&, int rank, int size, Milliseconds timeout)>;

// What a rank is about to do. Ranks may go on together if all say the same.
struct Intent {
    std::string exact;                // e.g. "all_reduce(float32, 10 elements, SUM)"
    std::string loose;                // what must agree at least, if less; then counts are exchanged
    bool refused = false;             // this rank cannot; `exact` says why
};

// What every rank was told: none goes on with this operation, and all can with the next one.
struct Disagreement : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Thrown to whom agree_with_next has told true: the ranks agree only loosely, and nothing else has happened.
struct LooseAgreement {};

class DirectEngine;

constexpr int messages_tag = 0x7fffffff;   // of what engines themselves send, beyond those of messages and their data

class Engine {
public:
    struct Group {
        int rank, size;
        c10::intrusive_ptr<c10d::Store> store;
    };
    Engine(Group group, EngineFactory factory, Milliseconds timeout);

    Inner inner();                       // made at the first call; throws what the factory throws
    Inner inner_if_made() const;
    const Group& group() const { return group_; }
    const EngineFactory& factory() const { return factory_; }

    Milliseconds timeout() const { return timeout_; }
    void set_timeout(Milliseconds timeout) { timeout_ = timeout; }
    Milliseconds or_default(Milliseconds timeout) const { return timeout.count() < 0 ? timeout_.load() : timeout; }

    // Collective: true if all said `exact`, false if only `loose`. Throws Disagreement on every rank otherwise, telling
    // who said what.
    bool agree(const Intent& intent, Milliseconds timeout);
    // The same, but with the first bytes of the one collective that this rank hands to inner() next, where that one is
    // small enough; otherwise false, and nothing has happened.
    bool agree_with_next(const Intent& intent, std::int64_t bytes, Milliseconds timeout);
    // Whether collectives of so many bytes, made as by agree_with_next or in shared memory, return when they are done.
    bool prompt(std::int64_t bytes) const { return bytes <= prompt_bytes_; }
    // Collective: throws Disagreement on every rank with the first text that a rank gives, unless all give none.
    void agree_on_success(const std::string& problem, Milliseconds timeout);

    // After an error of the transport nothing can follow: other ranks may have gone on or be gone. The first time, what
    // was asked for by call_when_broken is called, unless `quietly`.
    void break_off(const std::string& reason, bool quietly = false);
    void call_when_broken(std::int64_t id, std::function<void()> hook);
    void forget_call(std::int64_t id);
    bool usable() const;
    void check_usable(const std::string& what) const;   // throws: `what` cannot be done

private:
    std::vector<std::string> tell_everybody(const std::string& text, Milliseconds timeout);
    // What each rank gives, and the smallest of all: exact and loose hashes with their complements, and willingness.
    using Numbers = std::array<std::int64_t, 5>;
    void minimum(Numbers& numbers, Milliseconds timeout);
    bool judge(const Numbers& smallest, const Intent& intent, Milliseconds timeout);
    void choose_engine(Milliseconds timeout);   // once, with the first collective

    Group group_;
    EngineFactory factory_;
    std::atomic<Milliseconds> timeout_;
    mutable std::mutex mutex_;
    std::mutex making_;
    Inner inner_;
    bool chosen_ = false;   // by the thread that agrees
    std::atomic<std::int64_t> prompt_bytes_{-1};
    DirectEngine* direct_ = nullptr;   // inner_, where it is one
    std::string broken_;
    std::map<std::int64_t, std::function<void()>> hooks_;
};

}  // namespace torch_ocl::distributed
