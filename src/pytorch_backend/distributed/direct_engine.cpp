#include <distributed/direct_engine.hpp>

#include <algorithm>
#include <cstring>

#include <ATen/ops/from_blob.h>

#include <distributed/reductions.hpp>

namespace torch_ocl::distributed {
namespace {

using Bytes = Messages::Bytes;
// So few each rank reduces for itself: one round instead of two. Two ranks send as much either way.
constexpr std::int64_t few_bytes = 16 << 10, few_of_two = 256 << 10;

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

// Everybody, or the ranks at distances of powers of two, by which news reaches all in as many rounds.
std::set<int> peers_of(int rank, int size, bool everybody)
{
    std::set<int> peers;
    for (int distance = 1; distance < size; distance = everybody ? distance + 1 : 2 * distance) {
        peers.insert((rank + distance) % size);
        peers.insert((rank + size - distance) % size);
    }
    return peers;
}

std::int64_t room_of(bool everybody, std::int64_t most_bytes, int size)
{
    return everybody ? (most_bytes / (size - 1) + 63) / 64 * 64 : 0;
}

void lower(Numbers& numbers, const Numbers& others)
{
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = std::min(numbers[i], others[i]);
}

}  // namespace

DirectEngine::DirectEngine(Inner below, Milliseconds timeout)
    : LayeredEngine(std::move(below)), timeout_(timeout),
      everybody_(size_ <= most_ranks),
      messages_(below_, peers_of(rank_, size_, everybody_), room_of(everybody_, most_bytes, size_))
{
}

template <class Function>
DirectEngine::Pending DirectEngine::run(c10d::OpType type, Milliseconds timeout, Function&& function)
{
    class Done final : public c10d::Work {
    public:
        explicit Done(c10d::OpType type) : c10d::Work(-1, type) { finish(); }
    };
    function(std::chrono::steady_clock::now() + (timeout.count() > 0 ? timeout : timeout_));
    return c10::make_intrusive<Done>(type);
}

template <class Piece, class Use>
void DirectEngine::round(Deadline deadline, Piece&& piece, Use&& use)
{
    const std::optional<Carried> carried = std::exchange(carried_, std::nullopt);
    Numbers smallest = carried ? carried->numbers : Numbers{};
    for (int i = 1; i < size_; ++i) {   // beginning with the next one: not all speak to the same rank at once
        const int rank = (rank_ + i) % size_;
        messages_.send(rank, smallest, piece(rank), deadline);
    }
    std::vector<std::pair<int, Bytes>> received;
    for (int i = 1; i < size_; ++i) {
        const int rank = (rank_ + size_ - i) % size_;
        const Messages::Message message = messages_.receive(rank, deadline);
        lower(smallest, message.numbers);
        received.emplace_back(rank, message.bytes);
    }
    if (carried)
        carried->check(smallest);
    for (const auto& [rank, bytes] : received)
        use(rank, bytes);
}

Numbers DirectEngine::minimum(const Numbers& numbers, Milliseconds timeout)
{
    const Deadline deadline = std::chrono::steady_clock::now() + (timeout.count() > 0 ? timeout : timeout_);
    Numbers smallest = numbers;
    if (everybody_) {
        carry(numbers, [&](const Numbers& of_all) { smallest = of_all; });
        round(deadline, [](int) { return Bytes{}; }, [](int, Bytes) {});
        return smallest;
    }
    // After each round a rank knows of twice as many before it.
    for (int distance = 1; distance < size_; distance *= 2) {
        messages_.send((rank_ + distance) % size_, smallest, {}, deadline);
        lower(smallest, messages_.receive((rank_ + size_ - distance) % size_, deadline).numbers);
    }
    return smallest;
}

void DirectEngine::carry(const Numbers& numbers, Check check) { carried_ = Carried{numbers, std::move(check)}; }

DirectEngine::Pending DirectEngine::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options)
{
    const bool simple = tensors.size() == 1 && tensors[0].layout() == at::kStrided && tensors[0].is_contiguous();
    if (!carried_ && (!simple || !takes(static_cast<std::int64_t>(tensors[0].nbytes()))))
        return below_->allreduce(tensors, options);
    return run(c10d::OpType::ALLREDUCE, options.timeout, [&](Deadline deadline) {
        const at::Tensor flat = tensors[0].view({-1});
        const RedOp op = options.reduceOp;
        const std::int64_t whole = std::min(messages_.room(), size_ == 2 ? few_of_two : few_bytes);
        const bool everywhere = static_cast<std::int64_t>(flat.nbytes()) <= whole;
        const std::int64_t step = (everywhere ? whole : messages_.room() * size_) / flat.element_size();
        for (std::int64_t at = 0; at < flat.numel(); at += step) {
            const at::Tensor piece = flat.narrow(0, at, std::min(step, flat.numel() - at));
            everywhere ? reduce_everywhere(piece, op, deadline) : reduce_in_shares(piece, op, deadline);
        }
    });
}

void DirectEngine::reduce_everywhere(const at::Tensor& flat, RedOp op, Deadline deadline)
{
    Tensors rows(size_);
    rows[rank_] = flat;
    const Bytes mine{bytes_of(flat), static_cast<std::int64_t>(flat.nbytes())};
    round(deadline, [&](int) { return mine; },
          [&](int rank, Bytes bytes) {
              rows[rank] = at::from_blob(const_cast<char*>(bytes.data), flat.sizes(), flat.options());
          });
    at::Tensor result = flat;
    reduce_rows(rows, result, op);
}

// Each rank reduces one share for all.
void DirectEngine::reduce_in_shares(const at::Tensor& flat, RedOp op, Deadline deadline)
{
    const std::int64_t count = flat.numel(), share = (count + size_ - 1) / size_, width = flat.element_size();
    const auto first = [&](int rank) { return std::min(count, share * rank); };
    const auto of_rank = [&](int rank) {
        return Bytes{bytes_of(flat) + first(rank) * width, (first(rank + 1) - first(rank)) * width};
    };
    at::Tensor mine = flat.narrow(0, first(rank_), first(rank_ + 1) - first(rank_));
    Tensors rows(size_);
    rows[rank_] = mine;
    round(deadline, of_rank, [&](int rank, Bytes bytes) {
        rows[rank] = at::from_blob(const_cast<char*>(bytes.data), mine.sizes(), mine.options());
    });
    if (mine.numel() > 0)
        reduce_rows(rows, mine, op);
    round(deadline, [&](int) { return of_rank(rank_); },
          [&](int rank, Bytes bytes) {
              std::memcpy(bytes_of(flat) + first(rank) * width, bytes.data, static_cast<std::size_t>(bytes.count));
          });
}

DirectEngine::Pending DirectEngine::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options)
{
    const auto bytes = static_cast<std::int64_t>(tensors.at(0).nbytes());
    if (!carried_ && !takes(bytes))
        return below_->broadcast(tensors, options);
    return run(c10d::OpType::BROADCAST, options.timeout, [&](Deadline deadline) {
        const int root = static_cast<int>(options.rootRank);
        char* const data = bytes_of(tensors[0]);
        for (std::int64_t at = 0; at < bytes; at += messages_.room()) {
            const std::int64_t count = std::min(messages_.room(), bytes - at);
            round(deadline, [&](int) { return root == rank_ ? Bytes{data + at, count} : Bytes{}; },
                  [&](int, Bytes piece) {
                      if (piece.count > 0)
                          std::memcpy(data + at, piece.data, static_cast<std::size_t>(piece.count));
                  });
        }
    });
}

DirectEngine::Pending DirectEngine::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options)
{
    if (!carried_ && !takes(static_cast<std::int64_t>(output.nbytes())))
        return below_->_allgather_base(output, input, options);
    return run(c10d::OpType::_ALLGATHER_BASE, options.timeout, [&](Deadline deadline) {
        char* const rows = bytes_of(output);
        const char* const data = bytes_of(input);
        const auto row = static_cast<std::int64_t>(input.nbytes());
        for (std::int64_t at = 0; at < row; at += messages_.room()) {
            const std::int64_t count = std::min(messages_.room(), row - at);
            round(deadline, [&](int) { return Bytes{data + at, count}; },
                  [&](int rank, Bytes piece) {
                      std::memcpy(rows + rank * row + at, piece.data, static_cast<std::size_t>(piece.count));
                  });
        }
        std::memmove(rows + rank_ * row, data, static_cast<std::size_t>(row));   // it may lie there already
    });
}

// Without splits; with them the sizes are the engine's below.
DirectEngine::Pending DirectEngine::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<std::int64_t>& output_splits,
                                                  std::vector<std::int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& options)
{
    const bool even = output_splits.empty() && input_splits.empty();
    if (!carried_ && (!even || !takes(static_cast<std::int64_t>(input.nbytes()))))
        return below_->alltoall_base(output, input, output_splits, input_splits, options);
    return run(c10d::OpType::ALLTOALL_BASE, options.timeout, [&](Deadline deadline) {
        char* const to = bytes_of(output);
        const char* const from = bytes_of(input);
        const auto part = static_cast<std::int64_t>(input.nbytes()) / size_;
        for (std::int64_t at = 0; at < part; at += messages_.room()) {
            const std::int64_t count = std::min(messages_.room(), part - at);
            round(deadline, [&](int rank) { return Bytes{from + rank * part + at, count}; },
                  [&](int rank, Bytes piece) {
                      std::memcpy(to + rank * part + at, piece.data, static_cast<std::size_t>(piece.count));
                  });
        }
        std::memcpy(to + rank_ * part, from + rank_ * part, static_cast<std::size_t>(part));
    });
}

}  // namespace torch_ocl::distributed
