// The caching allocator of one device. Method: segments from the driver are split into blocks; freed blocks go to
// free lists per queue and merge with free neighbours (as in PyTorch's CUDA caching allocator). In-order queues make a
// block reusable on its own queue as soon as it is freed; work on other queues is guarded by events.
// With CLPRIM_MEMORY_CACHING=0 every allocation is a segment of its own of exactly its bytes.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include <clprim/memory.hpp>
#include <clprim/memory_history.hpp>
#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct Segment {
    cl::Buffer buffer;
    void* address = nullptr;     // reserved range of `bytes`
    char* host = nullptr;        // where kernels find its first byte, if that is memory of this process
    std::size_t bytes = 0;
    int queue = 0;
    bool small = false;          // holds blocks below the small limit
    std::uint64_t pool = 0;
    Block* first = nullptr;
};

class CachingAllocator {
public:
    explicit CachingAllocator(Context& context);
    ~CachingAllocator();

    // whole: a segment of its own, of the very size.
    Block* allocate(std::size_t bytes, Queue& queue, bool whole = false);
    void free(Block* block) noexcept;
    void record_use(Block& block, int queue);
    void await_before_reuse(Queue& queue);
    void empty_cache();
    Block* find(const void* address) const;
    void set_limit(std::size_t bytes);

    MemoryStatistics statistics();
    void reset_peak();
    void reset_accumulated();

    std::vector<MemorySegmentInfo> segments() const;
    void bind_pool(int queue, std::uint64_t pool);
    void trim_pool(std::uint64_t pool);            // gives back what is free of it
    void drop_pool(std::uint64_t pool) noexcept;   // that nobody holds any more
    std::size_t given_limit() const;
    bool caching() const;
    void set_caching(bool caching);

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

    struct Place {               // which free list serves a request
        std::uint64_t pool;
        int queue;
        bool small;
        auto operator<=>(const Place&) const = default;
    };

    FreeList& free_list(const Place& place) { return free_lists_[place]; }
    FreeList& free_list(const Block& block)
    {
        return free_list({block.segment->pool, block.queue, block.segment->small});
    }
    std::uint64_t pool_for(int queue) const;
    Block* take_free(std::size_t size, const Place& place);
    Block* new_segment(std::size_t size, std::size_t wanted, const Place& place);
    Block* split(Block* block, std::size_t size);
    void release(Block* block);                 // to the free list, merged with its neighbours
    Block* merge(Block* block);
    void process_pending(bool wait);
    void release_segments();
    void release_segments(FreeList& list);
    [[noreturn]] void out_of_memory(std::size_t bytes);
    std::size_t limit() const;

    Context& context_;
    bool caching_;
    mutable std::mutex mutex_;
    std::map<Place, FreeList> free_lists_;
    std::map<int, std::uint64_t> pools_of_queues_;
    std::map<const void*, Segment*> segments_;   // by address
    std::deque<Pending> pending_;
    std::vector<Queue*> awaited_;                // before what is freed is used again
    std::size_t limit_ = 0;
    MemoryStatistics statistics_;
};

namespace detail {

// Where kernels find the block's first byte, on devices that compute in this process's memory; null on others. To be
// read and written while no command works on it.
inline char* host_address(const Block& block) noexcept
{
    return block.segment && block.segment->host ? block.segment->host + block.offset : nullptr;
}

// How many bytes of its buffer lie from a block's first on: kernels may read what lies behind a block, where it means
// nothing to them.
inline std::size_t bytes_to_end(const Block& block) noexcept
{
    return block.segment ? block.segment->bytes - block.offset : block.size;
}

void register_allocator(const Context& context, CachingAllocator* allocator);   // null: gone
bool is_held_pool(std::uint64_t pool);
Block* allocate_segment(std::size_t bytes, Queue& queue);   // CachingAllocator::allocate, whole
void tell(MemoryAction::Kind kind, const Segment& segment, const Context& context, const void* address,
          std::size_t bytes);

}  // namespace detail
}  // namespace clprim
CLPRIM_API_END
