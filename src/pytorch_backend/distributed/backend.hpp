// c10d's backend for ocl tensors: staging through host memory around an engine for the CPU (Gloo, MPI, UCC).
#pragma once

#include <thread>

#include <torch/headeronly/version.h>

#include <distributed/runner.hpp>

namespace torch_ocl::distributed {

constexpr const char* backend_name = "occl";

// Whether the caller waits, where this PyTorch tells it.
template <class Options>
bool waits(const Options& options)
{
    if constexpr (requires { options.asyncOp; })
        return !options.asyncOp;
    else
        return false;
}

class Backend final : public c10d::Backend {
public:
    using Tensors = std::vector<at::Tensor>;
    using Pending = c10::intrusive_ptr<c10d::Work>;

    // ranks: of the group's members among all, for profilers.
    Backend(Engine::Group group, EngineFactory factory, Milliseconds timeout, std::vector<std::uint64_t> ranks = {});
    ~Backend() override;

    const std::string getBackendName() const override { return backend_name; }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    void setTimeout(Milliseconds timeout) override;
    std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
    void setSequenceNumberForGroup() override {}

    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                            const c10::intrusive_ptr<Options>& options) override;
    c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                            const c10::intrusive_ptr<Options>& options, const int& rank,
                                            const int& size) override;

    bool supportsCoalescing() const override { return true; }
    void startCoalescing() override;
    Pending endCoalescing() override;

    Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
    Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    Pending allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    Pending allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
    Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
    Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
    Pending _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
    Pending allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::AllgatherOptions& options) override;
    Pending allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) override;
    Pending gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
    Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
    Pending reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                           const c10d::ReduceScatterOptions& options) override;
    Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options) override;
    Pending reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                            const c10d::ReduceScatterOptions& options) override;
    Pending alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                          std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
    Pending alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
    Pending send(Tensors& tensors, int destination, int tag) override;
    Pending recv(Tensors& tensors, int source, int tag) override;
    Pending recvAnysource(Tensors& tensors, int tag) override;
    Pending barrier(const c10d::BarrierOptions& options) override;
    void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

    void abort() override;
    void shutdown() override;
#ifdef C10D_BACKEND_HAS_HOOKS
    void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override;
    void unregisterAbortHook(std::int64_t id) override;
#endif

private:
#if TORCH_VERSION_MINOR >= 14
    static constexpr c10d::OpType gathers_coalesced = c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
    static constexpr c10d::OpType reduces_coalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else   // which has no names for them
    static constexpr c10d::OpType gathers_coalesced = c10d::OpType::COALESCED;
    static constexpr c10d::OpType reduces_coalesced = c10d::OpType::COALESCED;
#endif
    // One call of an operation, from the check of its arguments to its work.
    struct Call {
        c10d::OpType type;
        const char* name;
        Milliseconds timeout{-1};
        at::TensorList inputs{};   // their shapes are shown by profilers
        bool at_once = false;      // the caller waits for it
    };
    static bool is_message(const Call& call);
    std::string group_name() const;
    void end(const std::string& reason, bool quietly);
    Runner& runner(const Call& call);   // for what this thread begins now
    void require(const Call& call, bool condition, const std::string& problem);   // or refuses, on every rank
    void check(const Call& call, const char* argument, const Tensors& tensors);
    void check_one(const Call& call, const char* argument, const Tensors& tensors);
    at::ScalarType common_dtype(const Call& call, const Tensors& tensors);
    c10::intrusive_ptr<Work> new_work(const Call& call, Tensors results, const at::Tensor& example);
    void recorded(const Call& call, const Work& work, const std::function<void()>& body);   // shown by profilers
    Pending run(const Call& call, Collective collective, Tensors results, const Tensors& used);
    Pending together(const Call& call, std::vector<Pending> parts);
    Pending kept(Pending work);
    bool coalescing() const { return coalescing_.load() == std::this_thread::get_id(); }
    Pending message(const Call& call, Tensors& tensors, int peer, int tag);
    Pending gather_flat(const Call& call, Tensors outputs, const at::Tensor& input, Tensors results);
    Pending reduce_scatter_flat(const Call& call, at::Tensor output, Tensors inputs, const c10d::ReduceOp& op);
    Pending exchange(const Call& call, Tensors outputs, Tensors inputs, bool even, Tensors results);
    c10::intrusive_ptr<Backend> derived(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                        const c10::intrusive_ptr<Options>& options);

    std::shared_ptr<Engine> engine_;
    std::vector<std::uint64_t> ranks_;
    Runner runner_;
    std::mutex mutex_;
    // When a callback of a future runs is different on every rank, and so is the place of what it begins among other
    // collectives. Those of callbacks have connections of their own, and callbacks run in the order of operations.
    std::unique_ptr<Runner> runner_of_callbacks_;
    std::shared_ptr<Strand> callbacks_ = std::make_shared<Strand>();
    std::atomic<std::uint64_t> sequence_{0};
    std::atomic<std::thread::id> coalescing_{};   // of this thread
    std::vector<Pending> coalesced_;
};

}  // namespace torch_ocl::distributed
