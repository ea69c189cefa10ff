// An engine for groups whose ranks only a network connects: what is small goes from each rank straight to every other,
// in one message or two, and the agreement of the ranks goes with it. All else goes to the engine below it.
#pragma once

#include <array>

#include <distributed/direct_messages.hpp>
#include <distributed/layered_engine.hpp>

namespace torch_ocl::distributed {

// Collectives come from one thread, in the same order on every rank, and those made of messages return when this rank
// is done.
class DirectEngine final : public LayeredEngine {
public:
    // Throws where the ranks cannot go on; gets the smallest of what all of them gave.
    using Check = std::function<void(const Numbers& smallest)>;

    DirectEngine(Inner below, Milliseconds timeout);

    // Collective: the smallest of what the ranks give, number by number.
    Numbers minimum(const Numbers& numbers, Milliseconds timeout);

    // Whether a collective of so many bytes on each rank is made of messages.
    bool takes(std::int64_t bytes) const { return everybody_ && bytes <= most_bytes; }
    // The first messages of the next collective, which must be one of those below, bring these numbers as well.
    void carry(const Numbers& numbers, Check check);

    Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
    Pending _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
    Pending alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                          std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
    void shutdown() override { messages_.stop(); }

private:
    static constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
    static constexpr int most_ranks = 8;   // beyond, so many messages at once would be slower than rings and trees

    template <class Function>
    Pending run(c10d::OpType type, Milliseconds timeout, Function&& function);
    // One message to each other rank: what `piece` gives for it; then `use` for what came from each.
    template <class Piece, class Use>
    void round(Deadline deadline, Piece&& piece, Use&& use);
    void reduce_everywhere(const at::Tensor& flat, c10d::ReduceOp::RedOpType op, Deadline deadline);
    void reduce_in_shares(const at::Tensor& flat, c10d::ReduceOp::RedOpType op, Deadline deadline);

    Milliseconds timeout_;
    bool everybody_;   // messages go to every rank, else only to those at distances of powers of two
    Messages messages_;
    struct Carried {
        Numbers numbers;
        Check check;
    };
    std::optional<Carried> carried_;
};

}  // namespace torch_ocl::distributed
