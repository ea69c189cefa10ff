// A look into the caching allocator: its segments and blocks, what it does as it does it, and pools of memory that
// only those who name them share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

class Context;
class Queue;

struct MemoryBlockInfo {
    enum class State { active, awaiting_free, inactive };   // awaiting_free: other queues still work on it
    const void* address = nullptr;
    std::size_t bytes = 0, requested = 0;
    State state = State::inactive;
};

struct MemorySegmentInfo {
    const void* address = nullptr;
    std::size_t bytes = 0;
    int queue = 0;
    bool small = false;
    std::uint64_t pool = 0;
    std::vector<MemoryBlockInfo> blocks;
};

std::vector<MemorySegmentInfo> memory_segments(const Context& context);

struct MemoryAction {
    enum class Kind { free_completed, segment_alloc, segment_free };
    Kind kind;
    int device;
    const void* address;
    std::size_t bytes;
    int queue;
    std::uint64_t pool;
};

// Called for every action, with the allocator's lock held: it must neither allocate device memory nor wait for anyone
// who may. Null ends it.
using MemoryObserver = void (*)(const MemoryAction&);
void set_memory_observer(MemoryObserver observer) noexcept;

// Pools. What a thread allocates while a pool is its current one, and what is allocated for a queue that is bound to a
// pool, comes from segments of that pool; they are given back to the driver only after the pool was released and their
// blocks are free.
std::uint64_t new_memory_pool();
void release_memory_pool(std::uint64_t pool) noexcept;
std::uint64_t exchange_memory_pool(std::uint64_t pool) noexcept;   // of this thread; 0 is the common one
std::uint64_t current_memory_pool() noexcept;
void bind_memory_pool(const Queue& queue, std::uint64_t pool);      // 0 ends it

// The upper bound of reserved bytes that Context::set_memory_limit gave; 0 for none.
std::size_t memory_limit(const Context& context);

// Whether freed blocks are kept for reuse (CLPRIM_MEMORY_CACHING); false gives each back to the driver at once.
bool memory_caching(const Context& context);
void set_memory_caching(Context& context, bool caching);

// Called where a transfer makes the host wait (not by finish() and Event::wait(), whose names say so). It may throw.
using BlockingHook = void (*)(const char* what);
void set_blocking_hook(BlockingHook hook) noexcept;

}  // namespace clprim
CLPRIM_API_END
