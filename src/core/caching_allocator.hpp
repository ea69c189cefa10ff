// The caching allocator of one device. Method: segments from the driver are split into blocks; freed blocks go to
// free lists per queue and merge with free neighbours (as in PyTorch's CUDA caching allocator). In-order queues make a
// block reusable on its own queue as soon as it is freed; work on other queues is guarded by events.
// With CLPRIM_MEMORY_CACHING=0 every allocation is a segment of its own of exactly its bytes.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include <clprim/memory.hpp>
#include <clprim/queue.hpp>

namespace clprim {

struct Segment {
    cl::Buffer buffer;
    void* address = nullptr;     // reserved range of `bytes`
    std::size_t bytes = 0;
    bool small = false;          // holds blocks below the small limit
    Block* first = nullptr;
};

class CachingAllocator {
public:
    explicit CachingAllocator(Context& context);

    Block* allocate(std::size_t bytes, Queue& queue);
    void free(Block* block) noexcept;
    void record_use(Block& block, int queue);
    void empty_cache();
    Block* find(const void* address) const;
    void set_limit(std::size_t bytes);

    MemoryStatistics statistics() const;
    void reset_peak();
    void reset_accumulated();

private:
    struct Less {
        bool operator()(const Block* a, const Block* b) const
        {
            return a->size != b->size ? a->size < b->size : a->address < b->address;
        }
    };
    using FreeList = std::set<Block*, Less>;
    struct Pending {
        Block* block;
        std::vector<Event> events;
    };

    FreeList& free_list(int queue, bool small) { return free_lists_[{queue, small}]; }
    Block* take_free(std::size_t size, int queue, bool small);
    Block* new_segment(std::size_t size, int queue, bool small);
    Block* split(Block* block, std::size_t size);
    void release(Block* block);                 // to the free list, merged with its neighbours
    Block* merge(Block* block);
    void process_pending(bool wait);
    void release_segments();
    [[noreturn]] void out_of_memory(std::size_t bytes);
    std::size_t limit() const;

    Context& context_;
    const bool caching_;
    mutable std::mutex mutex_;
    std::map<std::pair<int, bool>, FreeList> free_lists_;
    std::map<const void*, Segment*> segments_;   // by address
    std::deque<Pending> pending_;
    std::size_t limit_ = 0;
    MemoryStatistics statistics_;
};

}  // namespace clprim
