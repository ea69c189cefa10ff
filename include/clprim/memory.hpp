// Device memory handed out by the caching allocator of a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <clprim/device.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Context;
class Queue;
struct Segment;   // one cl_mem and the address range that stands for it; private to the allocator

// A piece of a segment. Kernels reach it as (buffer, offset); `address` is the host address that stands for its first
// byte: unique per byte of live device memory, made for pointer arithmetic and comparison only (a stray host access
// faults instead of corrupting).
struct Block {
    Segment* segment = nullptr;
    cl_mem buffer = nullptr;
    std::size_t offset = 0;      // bytes from the start of buffer, a multiple of 512
    std::size_t size = 0;        // bytes, as rounded by the allocator
    std::size_t requested = 0;   // bytes, as asked for
    void* address = nullptr;
    Context* context = nullptr;
    int queue = 0;               // queue on which the block was allocated: free for reuse there at once
    bool allocated = false;
    Block* previous = nullptr;   // neighbours in the segment
    Block* next = nullptr;
    std::vector<int> used_on;    // further queues that work on it (record_use)
};

// A reference-counted allocation; the last owner gives the block back to its allocator.
using Memory = std::shared_ptr<Block>;

// A Memory that does not own: for callers that keep the block alive themselves.
inline Memory borrow(Block* block) { return Memory(std::shared_ptr<void>(), block); }

struct MemoryStatistics {
    struct Value {
        std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
        void add(std::int64_t n) { current += n; allocated += n; if (current > peak) peak = current; }
        void remove(std::int64_t n) { current -= n; freed += n; }
        void reset_peak() { peak = current; }
        void reset_accumulated() { allocated = freed = 0; }
    };
    Value allocation_count, segment_count, active_count, inactive_split_count;
    Value allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
    std::int64_t retries = 0, out_of_memory_count = 0;
};

}  // namespace clprim
CLPRIM_API_END
