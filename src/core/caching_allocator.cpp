#include <core/caching_allocator.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <clprim/context.hpp>
#include <clprim/error_hook.hpp>
#include <core/environment.hpp>
#include <core/host_memory.hpp>
#include <core/queue_handle.hpp>
#include <core/system.hpp>

namespace clprim {
namespace {

constexpr std::size_t alignment = 512;               // every block starts and ends on it
constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t small_limit = mebibyte;         // requests up to here share small segments
constexpr std::size_t small_segment = 2 * mebibyte;
constexpr std::size_t medium_limit = 10 * mebibyte;   // requests up to here share large segments
constexpr std::size_t large_segment = 20 * mebibyte;

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

std::size_t segment_bytes(std::size_t size)
{
    if (size <= small_limit)
        return small_segment;
    return size < medium_limit ? large_segment : round_up(size, 2 * mebibyte);
}

// In a context of several devices drivers choose a buffer's place at its first use: here it is told, so that a lack of
// memory shows now. False if the device has no room.
bool place_on_device(cl_mem buffer, Queue& queue)
{
    cl_uint devices = 1;
    if (clGetContextInfo(queue.context().handle()(), CL_CONTEXT_NUM_DEVICES, sizeof devices, &devices, nullptr) !=
            CL_SUCCESS ||
        devices == 1 || runs_on_host_processor(queue.device()))
        return true;
    const cl_int code = clEnqueueMigrateMemObjects(detail::QueueAccess::handle(queue), 1, &buffer,
                                                   CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, nullptr);
    return code != CL_MEM_OBJECT_ALLOCATION_FAILURE && code != CL_OUT_OF_RESOURCES;
}

std::string mib(std::size_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / mebibyte); }

}  // namespace

CachingAllocator::CachingAllocator(Context& context)
    : context_(context), caching_(environment("CLPRIM_MEMORY_CACHING") != "0")
{
    detail::register_allocator(context, this);
}

CachingAllocator::~CachingAllocator() { detail::register_allocator(context_, nullptr); }

std::size_t CachingAllocator::limit() const { return limit_ ? limit_ : context_.device().global_memory; }

Block* CachingAllocator::allocate(std::size_t bytes, Queue& queue, bool whole)
{
    std::lock_guard lock(mutex_);
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), caching_ ? alignment : 1);
    if (size < bytes || size > context_.device().max_allocation) {
        ++statistics_.out_of_memory_count;
        detail::raise(
            OutOfMemory(fmt::format("Device {} is out of memory. Tried to allocate {} on {}, which takes at most {} in "
                                    "one piece",
                                    context_.device().index, mib(bytes), context_.device().name,
                                    mib(context_.device().max_allocation)),
                        bytes));
    }
    const Place place{pool_for(queue.id()), queue.id(), !whole && size <= small_limit};
    const std::size_t wanted = whole || !caching_ ? size : segment_bytes(size);
    process_pending(false);
    Block* block = whole ? nullptr : take_free(size, place);
    if (!block)
        block = new_segment(size, wanted, place);
    if (!block) {
        // Give back what is cached, also what waits for other queues, and try once more.
        ++statistics_.retries;
        process_pending(true);
        block = whole ? nullptr : take_free(size, place);
        if (!block) {
            release_segments();
            block = new_segment(size, wanted, place);
        }
    }
    if (!block)
        out_of_memory(bytes);
    block = split(block, size);
    block->allocated = true;
    block->requested = bytes;
    statistics_.allocation_count.add(1);
    statistics_.active_count.add(1);
    statistics_.allocated_bytes.add(static_cast<std::int64_t>(block->size));
    statistics_.active_bytes.add(static_cast<std::int64_t>(block->size));
    statistics_.requested_bytes.add(static_cast<std::int64_t>(bytes));
    return block;
}

std::uint64_t CachingAllocator::pool_for(int queue) const
{
    if (current_memory_pool() != 0 || pools_of_queues_.empty()) [[likely]]
        return current_memory_pool();
    const auto found = pools_of_queues_.find(queue);
    return found == pools_of_queues_.end() ? 0 : found->second;
}

Block* CachingAllocator::take_free(std::size_t size, const Place& place)
{
    FreeList& list = free_list(place);
    Block key;
    key.size = size;
    const auto found = list.lower_bound(&key);
    if (found == list.end())
        return nullptr;
    Block* const block = *found;               // of any size: what is more than asked for is split off
    list.erase(found);
    return block;
}

// Of `wanted` bytes where the device takes so much in one piece.
Block* CachingAllocator::new_segment(std::size_t size, std::size_t wanted, const Place& place)
{
    const std::size_t bytes = std::min(wanted, std::max(size, context_.device().max_allocation));
    if (static_cast<std::size_t>(statistics_.reserved_bytes.current) + bytes > limit())
        return nullptr;
    cl_int code = CL_SUCCESS;
    const cl_context context = context_.handle()();
    void* host = nullptr;
    cl_mem buffer = runs_on_host_processor(context_.device())
                        ? create_host_buffer(context, bytes, &host, &code)
                        : clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
    if (code == CL_SUCCESS && !place_on_device(buffer, context_.queue(place.queue))) {
        clReleaseMemObject(buffer);
        return nullptr;
    }
    if (code != CL_SUCCESS)
        return nullptr;
    auto segment = std::make_unique<Segment>();
    segment->buffer = cl::Buffer(buffer);
    segment->address = detail::reserve_addresses(bytes);
    if (!segment->address)
        return nullptr;
    segment->host = static_cast<char*>(host);
    segment->bytes = bytes;
    segment->queue = place.queue;
    segment->small = place.small;
    segment->pool = place.pool;
    auto* block = new Block;
    block->segment = segment.get();
    block->buffer = buffer;
    block->size = bytes;
    block->address = segment->address;
    block->context = &context_;
    block->queue = place.queue;
    segment->first = block;
    void* const address = segment->address;
    detail::tell(MemoryAction::Kind::segment_alloc, *segment, context_, address, bytes);
    segments_.emplace(address, segment.release());
    statistics_.segment_count.add(1);
    statistics_.reserved_bytes.add(static_cast<std::int64_t>(bytes));
    return block;
}

Block* CachingAllocator::split(Block* block, std::size_t size)
{
    const std::size_t rest = block->size - size;
    const bool worth = block->segment->small ? rest >= alignment : rest > small_limit;
    if (!worth)
        return block;
    auto* tail = new Block(*block);
    tail->offset += size;
    tail->address = static_cast<char*>(block->address) + size;
    tail->size = rest;
    tail->previous = block;
    if (tail->next)
        tail->next->previous = tail;
    block->next = tail;
    block->size = size;
    free_list(*tail).insert(tail);
    return block;
}

void CachingAllocator::free(Block* block) noexcept
{
    if (!block)
        return;
    std::lock_guard lock(mutex_);
    statistics_.allocation_count.remove(1);
    statistics_.allocated_bytes.remove(static_cast<std::int64_t>(block->size));
    statistics_.requested_bytes.remove(static_cast<std::int64_t>(block->requested));
    block->allocated = false;
    try {
        Pending pending{block, {}};
        for (int queue : block->used_on)
            pending.events.push_back(context_.queue(queue).record());
        for (Queue* queue : awaited_)
            if (Event event = queue->id() == block->queue ? Event() : queue->unfinished(); event.recorded())
                pending.events.push_back(std::move(event));
        block->used_on.clear();
        if (pending.events.empty())
            release(block);
        else
            pending_.push_back(std::move(pending));
    } catch (const std::exception&) {
        // The driver refuses even a marker: keep the block out of circulation rather than hand it out too early.
    }
}

void CachingAllocator::release(Block* block)
{
    statistics_.active_count.remove(1);
    statistics_.active_bytes.remove(static_cast<std::int64_t>(block->size));
    detail::tell(MemoryAction::Kind::free_completed, *block->segment, context_, block->address, block->size);
    block = merge(block);
    FreeList& list = free_list(*block);
    list.insert(block);
    if (!caching_)
        release_segments();
    else if (const std::uint64_t pool = block->segment->pool; pool != 0 && !detail::is_held_pool(pool))
        release_segments(list);
}

// Joins a free block with its free neighbours; the survivor is in no list.
Block* CachingAllocator::merge(Block* block)
{
    FreeList& list = free_list(*block);
    auto is_free = [&](Block* other) { return other && !other->allocated && list.count(other); };
    if (Block* next = block->next; is_free(next)) {
        list.erase(next);
        block->size += next->size;
        block->next = next->next;
        if (block->next)
            block->next->previous = block;
        delete next;
    }
    if (Block* previous = block->previous; is_free(previous)) {
        list.erase(previous);
        previous->size += block->size;
        previous->next = block->next;
        if (previous->next)
            previous->next->previous = previous;
        delete block;
        block = previous;
    }
    return block;
}

void CachingAllocator::process_pending(bool wait)
{
    for (auto it = pending_.begin(); it != pending_.end();) {
        if (wait)
            for (const Event& event : it->events)
                event.wait();
        const bool done =
            std::all_of(it->events.begin(), it->events.end(), [](const Event& event) { return event.query(); });
        if (done) {
            release(it->block);
            it = pending_.erase(it);
        } else {
            ++it;
        }
    }
}

// Returns to the driver every segment that is one free block, but for those of pools that somebody holds.
void CachingAllocator::release_segments()
{
    for (auto& [place, list] : free_lists_)
        if (!detail::is_held_pool(place.pool))
            release_segments(list);
}

void CachingAllocator::release_segments(FreeList& list)
{
    for (auto it = list.begin(); it != list.end();) {
        Block* block = *it;
        if (block->previous || block->next) {
            ++it;
            continue;
        }
        it = list.erase(it);
        Segment* segment = block->segment;
        segments_.erase(segment->address);
        detail::tell(MemoryAction::Kind::segment_free, *segment, context_, segment->address, segment->bytes);
        detail::release_addresses(segment->address, segment->bytes);
        statistics_.segment_count.remove(1);
        statistics_.reserved_bytes.remove(static_cast<std::int64_t>(segment->bytes));
        delete segment;   // the driver keeps the buffer until enqueued work is done with it
        delete block;
    }
}

void CachingAllocator::trim_pool(std::uint64_t pool)
{
    std::lock_guard lock(mutex_);
    for (auto& [place, list] : free_lists_)
        if (place.pool == pool)
            release_segments(list);
}

// Nobody asks this pool for memory again: what is free in it goes now, the rest when it becomes free.
void CachingAllocator::drop_pool(std::uint64_t pool) noexcept
{
    std::lock_guard lock(mutex_);
    for (auto it = free_lists_.begin(); it != free_lists_.end();) {
        if (it->first.pool == pool)
            release_segments(it->second);
        it = it->first.pool == pool && it->second.empty() ? free_lists_.erase(it) : std::next(it);
    }
}

void CachingAllocator::out_of_memory(std::size_t bytes)
{
    ++statistics_.out_of_memory_count;
    const auto reserved = static_cast<std::size_t>(statistics_.reserved_bytes.current);
    const auto allocated = static_cast<std::size_t>(statistics_.allocated_bytes.current);
    const std::string bound =
        limit_ ? fmt::format("{} in total, of which this process may take {} (set_memory_limit or "
                             "set_per_process_memory_fraction)",
                             mib(context_.device().global_memory), mib(limit_))
               : fmt::format("{} in total", mib(context_.device().global_memory));
    detail::raise(OutOfMemory(
        fmt::format("Device {} is out of memory. Tried to allocate {} on {}, which has {}; {} are reserved by this "
                    "process, of which {} are in use by tensors",
                    context_.device().index, mib(bytes), context_.device().name, bound, mib(reserved), mib(allocated)),
        bytes));
}

void CachingAllocator::record_use(Block& block, int queue)
{
    std::lock_guard lock(mutex_);
    if (queue != block.queue && std::find(block.used_on.begin(), block.used_on.end(), queue) == block.used_on.end())
        block.used_on.push_back(queue);
}

void CachingAllocator::await_before_reuse(Queue& queue)
{
    const std::lock_guard lock(mutex_);
    if (std::find(awaited_.begin(), awaited_.end(), &queue) == awaited_.end())
        awaited_.push_back(&queue);
}

void CachingAllocator::empty_cache()
{
    std::lock_guard lock(mutex_);
    process_pending(true);
    release_segments();
}

Block* CachingAllocator::find(const void* address) const
{
    std::lock_guard lock(mutex_);
    auto after = segments_.upper_bound(address);
    if (after == segments_.begin())
        return nullptr;
    const auto* wanted = static_cast<const char*>(address);
    --after;
    for (Block* block = after->second->first; block; block = block->next) {
        const auto* start = static_cast<const char*>(block->address);
        if (wanted >= start && wanted < start + block->size)
            return block->allocated ? block : nullptr;
    }
    return nullptr;
}

void CachingAllocator::set_limit(std::size_t bytes)
{
    std::lock_guard lock(mutex_);
    limit_ = bytes;
}

}  // namespace clprim
