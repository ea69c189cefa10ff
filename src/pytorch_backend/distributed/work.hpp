// Handles of operations under way. wait() returns when the network has done its part; the current stream then waits for
// the copy back into device memory, the host does not.
#pragma once

#include <optional>

#include <c10/core/Stream.h>
#include <clprim/queue.hpp>
#include <distributed/param_comms.hpp>
#include <distributed/threads.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace torch_ocl::distributed {

class Work final : public c10d::Work {
public:
    struct About {
        c10d::OpType type;
        std::string text;                    // what errors say: operation, group, tensors
        std::vector<at::Tensor> results;
        std::optional<c10::Device> device;   // none: nothing of a device is involved (barrier)
        std::chrono::milliseconds timeout;
        std::uint64_t sequence;
        std::string title;                   // what profilers call it
        std::vector<at::Tensor> inputs;      // whose shapes they show
        std::shared_ptr<const CommsGroup> group{};   // while one looks on
        std::shared_ptr<Strand> callbacks{};         // runs those of the future in order; none: any thread
    };
    Work(int rank, About about);

    // Called once, by the thread that has enqueued the last command of the operation on this queue.
    void complete(clprim::Queue* queue);
    // Called at most once; an operation that has ended keeps its outcome.
    void fail(std::exception_ptr error);
    void set_source(int rank) { source_ = rank; }

    const About& about() const { return about_; }

    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void synchronize() override;
    void blockCurrentStream() override { wait(); }
    void abort() override;
    std::vector<at::Tensor> result() override { return about_.results; }
    int sourceRank() const override { return source_; }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    std::uint64_t getSequencenumber() const override { return about_.sequence; }
    std::chrono::milliseconds getTimeout() const TORCH_OCL_OVERRIDE_SINCE_2_14 { return about_.timeout; }
    float getDuration() const override;

private:
    bool wait_for_end(std::chrono::milliseconds timeout);
    void end(std::exception_ptr error);
    void mark(const c10::intrusive_ptr<c10::ivalue::Future>& future);

    About about_;
    int source_ = -1;
    clprim::Event done_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    std::chrono::steady_clock::time_point begin_, end_;
};

// Several operations as one.
class Works final : public c10d::Work {
public:
    Works(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> parts);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void synchronize() override;
    void blockCurrentStream() override { wait(); }
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
    std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

}  // namespace torch_ocl::distributed
