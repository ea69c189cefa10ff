#include <clprim/memory_history.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <clprim/context.hpp>
#include <core/caching_allocator.hpp>
#include <core/memory_pool.hpp>

namespace clprim {
namespace {

// The allocators of this process, for those who have a context: contexts keep theirs to themselves.
std::mutex allocators_mutex;
std::map<const Context*, CachingAllocator*>& allocators()
{
    static auto* all = new std::map<const Context*, CachingAllocator*>;
    return *all;
}

CachingAllocator& allocator_of(const Context& context)
{
    const std::lock_guard lock(allocators_mutex);
    return *allocators().at(&context);
}

std::atomic<MemoryObserver> memory_observer{nullptr};

// Pools that somebody holds. Their free segments stay theirs.
std::mutex pools_mutex;
std::uint64_t last_pool = 0;
std::set<std::uint64_t>& held_pools()
{
    static auto* pools = new std::set<std::uint64_t>;
    return *pools;
}

thread_local std::uint64_t pool_of_thread = 0;

}  // namespace

void detail::register_allocator(const Context& context, CachingAllocator* allocator)
{
    const std::lock_guard lock(allocators_mutex);
    if (allocator)
        allocators()[&context] = allocator;
    else
        allocators().erase(&context);
}

void detail::tell(MemoryAction::Kind kind, const Segment& segment, const Context& context, const void* address,
                  std::size_t bytes)
{
    if (const MemoryObserver observer = memory_observer.load(std::memory_order_relaxed)) [[unlikely]]
        observer({kind, context.device().index, address, bytes, segment.queue, segment.pool});
}

bool detail::is_held_pool(std::uint64_t pool)
{
    if (pool == 0)
        return false;
    const std::lock_guard lock(pools_mutex);
    return held_pools().count(pool) != 0;
}

std::vector<MemorySegmentInfo> CachingAllocator::segments() const
{
    std::lock_guard lock(mutex_);
    std::set<const Block*> pending;
    for (const Pending& entry : pending_)
        pending.insert(entry.block);
    std::vector<MemorySegmentInfo> result;
    for (const auto& [address, segment] : segments_) {
        MemorySegmentInfo info{address, segment->bytes, segment->queue, segment->small, segment->pool, {}};
        for (const Block* block = segment->first; block; block = block->next) {
            const auto state = block->allocated            ? MemoryBlockInfo::State::active
                               : pending.count(block) != 0 ? MemoryBlockInfo::State::awaiting_free
                                                           : MemoryBlockInfo::State::inactive;
            info.blocks.push_back({block->address, block->size,
                                   state == MemoryBlockInfo::State::inactive ? 0 : block->requested, state});
        }
        result.push_back(std::move(info));
    }
    return result;
}

void CachingAllocator::bind_pool(int queue, std::uint64_t pool)
{
    std::lock_guard lock(mutex_);
    if (pool == 0)
        pools_of_queues_.erase(queue);
    else
        pools_of_queues_[queue] = pool;
}

std::size_t CachingAllocator::given_limit() const
{
    std::lock_guard lock(mutex_);
    return limit_;
}

bool CachingAllocator::caching() const
{
    std::lock_guard lock(mutex_);
    return caching_;
}

void CachingAllocator::set_caching(bool caching)
{
    std::lock_guard lock(mutex_);
    caching_ = caching;
    if (!caching_)
        release_segments();
}

std::vector<MemorySegmentInfo> memory_segments(const Context& context) { return allocator_of(context).segments(); }
std::size_t memory_limit(const Context& context) { return allocator_of(context).given_limit(); }
bool memory_caching(const Context& context) { return allocator_of(context).caching(); }
void set_memory_caching(Context& context, bool caching) { allocator_of(context).set_caching(caching); }
void set_memory_observer(MemoryObserver observer) noexcept { memory_observer = observer; }

Block* detail::allocate_segment(std::size_t bytes, Queue& queue)
{
    return allocator_of(queue.context()).allocate(bytes, queue, true);
}

std::uint64_t new_memory_pool()
{
    const std::lock_guard lock(pools_mutex);
    held_pools().insert(++last_pool);
    return last_pool;
}

void release_memory_pool(std::uint64_t pool) noexcept
{
    {
        const std::lock_guard lock(pools_mutex);
        held_pools().erase(pool);
    }
    const std::lock_guard lock(allocators_mutex);
    for (const auto& [context, allocator] : allocators())
        allocator->drop_pool(pool);
}

void detail::MemoryPool::trim() const
{
    const std::lock_guard lock(allocators_mutex);
    for (const auto& [context, allocator] : allocators())
        allocator->trim_pool(id_);
}

std::uint64_t exchange_memory_pool(std::uint64_t pool) noexcept { return std::exchange(pool_of_thread, pool); }
std::uint64_t current_memory_pool() noexcept { return pool_of_thread; }

void bind_memory_pool(const Queue& queue, std::uint64_t pool)
{
    allocator_of(queue.context()).bind_pool(queue.id(), pool);
}

// What other queues have finished with counts as free, though no allocation has asked since.
MemoryStatistics CachingAllocator::statistics()
{
    std::lock_guard lock(mutex_);
    process_pending(false);
    MemoryStatistics result = statistics_;
    for (const auto& [key, list] : free_lists_)
        for (const Block* block : list)
            if (block->previous || block->next) {
                ++result.inactive_split_count.current;
                result.inactive_split_bytes.current += static_cast<std::int64_t>(block->size);
            }
    return result;
}

namespace {

template <class Function>
void for_each_value(MemoryStatistics& statistics, Function function)
{
    for (auto* value : {&statistics.allocation_count, &statistics.segment_count, &statistics.active_count,
                        &statistics.inactive_split_count, &statistics.allocated_bytes, &statistics.reserved_bytes,
                        &statistics.active_bytes, &statistics.inactive_split_bytes, &statistics.requested_bytes})
        function(*value);
}

}  // namespace

void CachingAllocator::reset_peak()
{
    std::lock_guard lock(mutex_);
    process_pending(false);
    for_each_value(statistics_, [](auto& value) { value.reset_peak(); });
}

void CachingAllocator::reset_accumulated()
{
    std::lock_guard lock(mutex_);
    for_each_value(statistics_, [](auto& value) { value.reset_accumulated(); });
    statistics_.retries = statistics_.out_of_memory_count = 0;
}

}  // namespace clprim
