// Messages of bounded size between the ranks of a group, through an engine's connections. Each rank has told the others
// beforehand where the next one goes, so that it travels at once.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include <distributed/engine.hpp>

namespace torch_ocl::distributed {

using Numbers = std::array<std::int64_t, 5>;   // what small agreements are about
using Deadline = std::chrono::steady_clock::time_point;

// For one thread, except for stop().
class Messages {
public:
    // Collective: connects this rank with `peers`, of which each names it as well. Messages have room for so many
    // bytes.
    Messages(Inner engine, const std::set<int>& peers, std::int64_t room);
    ~Messages();
    Messages(const Messages&) = delete;

    struct Bytes {
        const char* data = nullptr;
        std::int64_t count = 0;
    };
    struct Message {
        Numbers numbers;
        Bytes bytes;   // until the next message of that rank has come
    };
    std::int64_t room() const { return room_; }
    void send(int rank, const Numbers& numbers, Bytes bytes, Deadline deadline);   // the bytes are copied
    Message receive(int rank, Deadline deadline);
    void stop();   // whoever waits is told that it ended

private:
    using Posted = c10::intrusive_ptr<c10d::Work>;
    struct Incoming {
        at::Tensor memory[2];
        int next = 0;   // where the next message goes
        Posted posted;
    };
    struct Outgoing {
        at::Tensor memory;
        Posted posted;
    };
    void expect(int rank);

    Inner engine_;
    std::int64_t room_;
    std::map<int, Incoming> incoming_;   // by rank
    std::map<int, Outgoing> outgoing_;
    std::mutex mutex_;                   // of what is posted to receive
    bool stopped_ = false;
};

}  // namespace torch_ocl::distributed
