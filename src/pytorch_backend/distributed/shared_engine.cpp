#include <distributed/shared_engine.hpp>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <distributed/layered_engine.hpp>
#include <distributed/reductions.hpp>

namespace torch_ocl::distributed {
namespace {

constexpr auto slot_bytes = static_cast<std::int64_t>(SharedSegment::slot_bytes);
// So few bytes each rank reduces for itself: it need not wait for the others a second time.
constexpr std::int64_t few_bytes = 16 << 10;

class Done final : public c10d::Work {
public:
    explicit Done(c10d::OpType type) : c10d::Work(-1, type) { finish(); }
};

// Calls come from one thread, in the same order on every rank, and return when this rank is done.
class SharedEngine final : public LayeredEngine {
public:
    SharedEngine(Inner below, std::shared_ptr<SharedSegment> segment, Milliseconds timeout)
        : LayeredEngine(std::move(below)), segment_(std::move(segment)), timeout_(timeout)
    {
    }

    Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override
    {
        if (tensors.size() != 1 || tensors[0].layout() != at::kStrided || !tensors[0].is_contiguous())
            return below_->allreduce(tensors, options);
        return run(c10d::OpType::ALLREDUCE, options.timeout, [&](auto deadline) {
            const at::Tensor flat = tensors[0].view({-1});
            const RedOp op = options.reduceOp;
            const std::int64_t width = flat.element_size(), few = few_bytes / width;
            if (flat.numel() <= few)
                return reduce_everywhere(flat, op, deadline);
            const std::int64_t step = slot_bytes / width;
            for (std::int64_t at = 0; at < flat.numel(); at += step)
                reduce_in_shares(flat.narrow(0, at, std::min(step, flat.numel() - at)), op, deadline);
        });
    }

    Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override
    {
        return run(c10d::OpType::BROADCAST, options.timeout, [&](auto deadline) {
            const int root = static_cast<int>(options.rootRank);
            for_pieces(tensors[0], slot_bytes, [&](char* data, std::int64_t bytes) {
                segment_->begin(deadline);
                if (root == rank_)
                    std::memcpy(segment_->slot(rank_), data, bytes);
                segment_->announce();
                if (root == rank_)
                    return;
                segment_->await(root, deadline);
                std::memcpy(data, segment_->slot(root), bytes);
            });
        });
    }

    Pending _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override
    {
        return run(c10d::OpType::_ALLGATHER_BASE, options.timeout, [&](auto deadline) {
            char* const rows = bytes_of(output);
            const auto row = static_cast<std::int64_t>(input.nbytes());
            std::int64_t at = 0;
            for_pieces(input, slot_bytes, [&](char* data, std::int64_t bytes) {
                segment_->begin(deadline);
                std::memcpy(segment_->slot(rank_), data, bytes);
                segment_->announce();
                std::memmove(rows + rank_ * row + at, data, bytes);   // it may lie there already
                for_others([&](int rank) {
                    segment_->await(rank, deadline);
                    std::memcpy(rows + rank * row + at, segment_->slot(rank), bytes);
                });
                at += bytes;
            });
        });
    }

    Pending alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                          std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override
    {
        return run(c10d::OpType::ALLTOALL_BASE, options.timeout, [&](auto deadline) {
            const auto to = places(output, output_splits), from = places(input, input_splits);
            std::int64_t longest = from[0].bytes;
            if (!input_splits.empty() || !output_splits.empty())
                longest = longest_of_all(from, deadline);
            const std::int64_t room = slot_bytes / size_ / 64 * 64;
            std::memmove(to[rank_].data, from[rank_].data, from[rank_].bytes);
            for (std::int64_t at = 0; at < longest; at += room) {
                segment_->begin(deadline);
                for_others([&](int rank) { copy_piece(segment_->slot(rank_) + rank * room, from[rank], at, room); });
                segment_->announce();
                for_others([&](int rank) {
                    segment_->await(rank, deadline);
                    const std::int64_t bytes = std::min(room, to[rank].bytes - at);
                    if (bytes > 0)
                        std::memcpy(to[rank].data + at, segment_->slot(rank) + rank_ * room, bytes);
                });
            }
        });
    }

    void shutdown() override { segment_->leave(); }

private:
    using Deadline = SharedSegment::Deadline;
    struct Place {
        char* data;
        std::int64_t bytes;
    };

    static char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

    template <class Function>
    Pending run(c10d::OpType type, Milliseconds timeout, Function&& function)
    {
        try {
            function(std::chrono::steady_clock::now() + (timeout.count() > 0 ? timeout : timeout_));
        }
        catch (...) {
            segment_->leave();   // the others would wait for what does not come
            throw;
        }
        return c10::make_intrusive<Done>(type);
    }

    template <class Function>
    void for_others(Function&& function)   // beginning with the next one: not all read the same memory at once
    {
        for (int i = 1; i < size_; ++i)
            function((rank_ + i) % size_);
    }

    template <class Function>
    static void for_pieces(const at::Tensor& tensor, std::int64_t step, Function&& function)
    {
        const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
        for (std::int64_t at = 0; at < bytes; at += step)
            function(bytes_of(tensor) + at, std::min(step, bytes - at));
    }

    static void copy_piece(char* to, const Place& from, std::int64_t at, std::int64_t room)
    {
        if (at < from.bytes)
            std::memcpy(to, from.data + at, std::min(room, from.bytes - at));
    }

    // Where the part of each rank lies; rows are bytes, as the callers hand them over.
    std::vector<Place> places(const at::Tensor& tensor, const std::vector<std::int64_t>& splits) const
    {
        std::vector<Place> places;
        std::int64_t at = 0;
        for (int rank = 0; rank < size_; ++rank) {
            const std::int64_t bytes = splits.empty() ? static_cast<std::int64_t>(tensor.nbytes()) / size_
                                                      : splits[rank] * static_cast<std::int64_t>(tensor.element_size());
            places.push_back({bytes_of(tensor) + at, bytes});
            at += bytes;
        }
        return places;
    }

    std::int64_t longest_of_all(const std::vector<Place>& parts, Deadline deadline)
    {
        std::int64_t longest = 0;
        for (const Place& part : parts)
            longest = std::max(longest, part.bytes);
        segment_->begin(deadline);
        std::memcpy(segment_->slot(rank_), &longest, sizeof longest);
        segment_->announce();
        for_others([&](int rank) {
            std::int64_t theirs = 0;
            segment_->await(rank, deadline);
            std::memcpy(&theirs, segment_->slot(rank), sizeof theirs);
            longest = std::max(longest, theirs);
        });
        return longest;
    }

    // The part of a rank, in the slots of this step, like `mine`.
    at::Tensor in_slot(int rank, std::int64_t first, std::int64_t count, const at::Tensor& like) const
    {
        return at::from_blob(segment_->slot(rank) + first * like.element_size(), {count}, like.options());
    }

    void reduce_everywhere(at::Tensor flat, RedOp op, Deadline deadline)
    {
        segment_->begin(deadline);
        std::memcpy(segment_->slot(rank_), flat.data_ptr(), flat.nbytes());
        segment_->announce();
        segment_->await_all(deadline);
        Tensors rows;
        for (int rank = 0; rank < size_; ++rank)
            rows.push_back(in_slot(rank, 0, flat.numel(), flat));
        reduce_rows(rows, flat, op);
    }

    // Each rank reduces one share for all.
    void reduce_in_shares(const at::Tensor& flat, RedOp op, Deadline deadline)
    {
        const std::int64_t count = flat.numel(), share = (count + size_ - 1) / size_, width = flat.element_size();
        const auto first = [&](int rank) { return std::min(count, share * rank); };
        const auto length = [&](int rank) { return first(rank + 1) - first(rank); };
        segment_->begin(deadline);
        for_others([&](int rank) {
            std::memcpy(segment_->slot(rank_) + first(rank) * width, bytes_of(flat) + first(rank) * width,
                        length(rank) * width);
        });
        segment_->announce();
        segment_->await_all(deadline);
        at::Tensor mine = flat.narrow(0, first(rank_), length(rank_));
        Tensors rows;
        for (int rank = 0; rank < size_; ++rank)
            rows.push_back(rank == rank_ ? mine : in_slot(rank, first(rank_), length(rank_), flat));
        if (mine.numel() > 0)
            reduce_rows(rows, mine, op);
        segment_->begin(deadline);
        std::memcpy(segment_->slot(rank_), mine.data_ptr(), mine.nbytes());
        segment_->announce();
        for_others([&](int rank) {
            segment_->await(rank, deadline);
            std::memcpy(bytes_of(flat) + first(rank) * width, segment_->slot(rank), length(rank) * width);
        });
    }

    std::shared_ptr<SharedSegment> segment_;
    Milliseconds timeout_;
};

bool wanted()
{
    const char* choice = std::getenv("CLPRIM_DISTRIBUTED_SHARED_MEMORY");
    return !choice || std::string_view(choice) != "0";
}

}  // namespace

Inner with_shared_memory(Inner below, Milliseconds timeout)
{
    const int rank = below->getRank(), size = below->getSize();
    if (size > SharedSegment::most_ranks)
        return below;
    // Rank 0 makes the segment and names it. Whoever can open that name sees the same memory, whatever machines and
    // containers call themselves; if one cannot, none does.
    constexpr std::int64_t name_bytes = 64;
    struct Made {
        ~Made()
        {
            if (!name.empty())   // whatever happens: those who have it keep it
                SharedSegment::forget(name);
        }
        std::string name;
    };
    const Made made{rank == 0 && wanted() ? SharedSegment::create(size) : std::string()};
    at::Tensor text = at::zeros({name_bytes}, at::dtype(at::kByte));
    std::memcpy(text.mutable_data_ptr(), made.name.data(), made.name.size());
    c10d::BroadcastOptions from_first;
    from_first.timeout = timeout;
    std::vector<at::Tensor> list{text};
    below->broadcast(list, from_first)->wait();
    const std::string name(static_cast<const char*>(text.const_data_ptr()));
    auto segment = name.empty() || !wanted() ? nullptr : SharedSegment::open(name, rank, size);
    std::int64_t reached = segment ? 1 : 0;
    c10d::AllreduceOptions minimum;
    minimum.reduceOp = c10d::ReduceOp::MIN;
    minimum.timeout = timeout;
    list = {at::from_blob(&reached, {1}, at::dtype(at::kLong))};
    below->allreduce(list, minimum)->wait();
    if (reached == 0)
        return below;
    return c10::make_intrusive<SharedEngine>(std::move(below), std::move(segment), timeout);
}

}  // namespace torch_ocl::distributed
