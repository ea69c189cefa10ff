// Memory that the processes of one machine share: a counter and two slots of bytes for each rank. A rank fills its slot
// of a step, announces the step, and reads the slots of others when they have announced theirs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace torch_ocl::distributed {

class SharedSegment {
public:
    static constexpr std::size_t slot_bytes = std::size_t{1} << 20;
    static constexpr int most_ranks = 64;
    using Deadline = std::chrono::steady_clock::time_point;

    // A name that no other segment has, for all ranks; empty where this machine has no such memory to give.
    static std::string create(int size);
    // The segment of that name, or null where it cannot be reached, as from another machine.
    static std::shared_ptr<SharedSegment> open(const std::string& name, int rank, int size);
    static void forget(const std::string& name);   // its memory lives as long as somebody has it open

    ~SharedSegment();
    SharedSegment(const SharedSegment&) = delete;

    // Begins the next step, the same on every rank. Afterwards this rank may write into its slot: all others have read
    // what lay there two steps ago.
    void begin(Deadline deadline);
    void announce();                           // what this rank has written can be read
    void await(int rank, Deadline deadline);   // until that rank has announced this step
    void await_all(Deadline deadline);
    char* slot(int rank) const;                // of this step

    // Those who wait for this rank, now or later, fail at once; so does this rank itself.
    void leave();

private:
    struct Line;
    SharedSegment(int file, void* memory, int rank, int size);
    Line& line(int rank) const;
    void await(int rank, std::uint32_t step, Deadline deadline);
    bool alive(int rank) const;

    int file_;
    char* memory_;
    int rank_, size_;
    std::uint32_t step_ = 0;
    std::atomic<bool> left_{false};
};

}  // namespace torch_ocl::distributed
