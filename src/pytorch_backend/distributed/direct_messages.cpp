#include <distributed/direct_messages.hpp>

#include <cstring>

#include <ATen/ops/empty.h>

namespace torch_ocl::distributed {
namespace {

struct Header {
    Numbers numbers;
    std::int64_t bytes;
};
constexpr auto header_bytes = static_cast<std::int64_t>(sizeof(Header));

at::Tensor host_bytes(std::int64_t count) { return at::empty({count}, at::dtype(at::kByte).device(at::kCPU)); }

Milliseconds left_until(Deadline deadline)
{
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    return std::max(left, Milliseconds(1));   // 0 would be no limit at all
}

}  // namespace

Messages::Messages(Inner engine, const std::set<int>& peers, std::int64_t room)
    : engine_(std::move(engine)), room_(room)
{
    // Connecting may wait until the peer does the same. In ascending order on every rank there is no circle: the lowest
    // pair that is not connected is the next one of both its ranks.
    for (const int rank : peers) {
        outgoing_[rank].memory = host_bytes(header_bytes + room_);
        for (at::Tensor& memory : incoming_[rank].memory)
            memory = host_bytes(header_bytes + room_);
        expect(rank);
    }
}

Messages::~Messages() = default;

void Messages::expect(int rank)
{
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!stopped_, "the group was ended");
    Incoming& from = incoming_.at(rank);
    std::vector<at::Tensor> list{from.memory[from.next]};
    from.posted = engine_->recv(list, rank, messages_tag);
}

void Messages::send(int rank, const Numbers& numbers, Bytes bytes, Deadline deadline)
{
    TORCH_INTERNAL_ASSERT(bytes.count <= room_);
    Outgoing& to = outgoing_.at(rank);
    if (to.posted)
        to.posted->wait(left_until(deadline));   // the one before has long left, as a rule
    char* const memory = static_cast<char*>(to.memory.mutable_data_ptr());
    const Header header{numbers, bytes.count};
    std::memcpy(memory, &header, sizeof(header));
    if (bytes.count > 0)
        std::memcpy(memory + header_bytes, bytes.data, static_cast<std::size_t>(bytes.count));
    std::vector<at::Tensor> list{to.memory.narrow(0, 0, header_bytes + bytes.count)};
    to.posted = engine_->send(list, rank, messages_tag);
}

Messages::Message Messages::receive(int rank, Deadline deadline)
{
    Incoming& from = incoming_.at(rank);
    from.posted->wait(left_until(deadline));
    const char* const memory = static_cast<const char*>(from.memory[from.next].const_data_ptr());
    Header header;
    std::memcpy(&header, memory, sizeof(header));
    from.next = 1 - from.next;
    expect(rank);
    return {header.numbers, {memory + header_bytes, header.bytes}};
}

void Messages::stop()
{
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true))
        return;
    for (auto& [rank, from] : incoming_)
        if (from.posted)
            from.posted->abort();
}

}  // namespace torch_ocl::distributed
