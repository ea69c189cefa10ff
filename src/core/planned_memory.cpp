#include <core/planned_memory.hpp>

#include <algorithm>
#include <mutex>

#include <clprim/context.hpp>
#include <core/caching_allocator.hpp>
#include <core/poison.hpp>

namespace clprim::detail {

namespace {

thread_local AllocationGuide* guide_of_thread = nullptr;

Memory owned(Block* block)
{
    return Memory(block, [](Block* last) { last->context->free_block(last); });
}

}  // namespace

AllocationGuide::AllocationGuide(const MemoryPool& pool) : pool_(pool.id()), before_(guide_of_thread)
{
    guide_of_thread = this;
}

AllocationGuide::~AllocationGuide() { guide_of_thread = before_; }

AllocationGuide* AllocationGuide::current() noexcept
{
    AllocationGuide* const guide = guide_of_thread;
    return guide && guide->pool_ == current_memory_pool() ? guide : nullptr;
}

struct AllocationTrace::Noted {
    std::mutex mutex;     // releases may come from other threads
    std::vector<MemoryRequest> requests;
    std::vector<bool> alive;
    int step = 0;
};

AllocationTrace::AllocationTrace(const MemoryPool& pool) : AllocationGuide(pool), noted_(std::make_shared<Noted>()) {}

Memory AllocationTrace::allocate(Context& context, std::size_t bytes, Queue& queue)
{
    std::size_t number = 0;
    {
        const std::lock_guard lock(noted_->mutex);
        number = noted_->requests.size();
        noted_->requests.push_back({bytes, noted_->step++, 0});
        noted_->alive.push_back(true);
    }
    return Memory(context.allocate_block(bytes, queue), [noted = noted_, number](Block* block) {
        {
            const std::lock_guard lock(noted->mutex);
            noted->requests[number].last = noted->step++;
            noted->alive[number] = false;
        }
        block->context->free_block(block);
    });
}

std::vector<MemoryRequest> AllocationTrace::requests() const
{
    const std::lock_guard lock(noted_->mutex);
    std::vector<MemoryRequest> requests = noted_->requests;
    for (std::size_t i = 0; i < requests.size(); ++i)
        if (noted_->alive[i])
            requests[i].last = noted_->step;
    return requests;
}

struct PlannedMemory::Places {
    std::mutex mutex;
    std::vector<MemoryRequest> requests;
    std::vector<MemoryPlace> places;
    std::vector<std::size_t> taken;     // numbers of requests whose places are in use
    std::vector<Memory> arenas;
    std::size_t next = 0;

    bool overlap(std::size_t a, std::size_t b) const
    {
        const auto end = [&](std::size_t i) { return places[i].offset + std::max<std::size_t>(requests[i].bytes, 1); };
        return places[a].arena == places[b].arena && places[a].offset < end(b) && places[b].offset < end(a);
    }

    // The number of the request that this is, if it has its place.
    std::size_t take(std::size_t bytes)
    {
        const std::lock_guard lock(mutex);
        const std::size_t number = next++;
        if (number >= requests.size() || requests[number].bytes != bytes ||
            std::ranges::any_of(taken, [&](std::size_t other) { return overlap(number, other); }))
            return requests.size();
        taken.push_back(number);
        return number;
    }

    void give_back(std::size_t number)
    {
        const std::lock_guard lock(mutex);
        std::erase(taken, number);
    }
};

PlannedMemory::PlannedMemory(const MemoryPool& pool, Queue& queue, std::vector<MemoryRequest> requests,
                             const MemoryPlan& plan)
    : AllocationGuide(pool), places_(std::make_shared<Places>())
{
    const MemoryPool::Use use(pool);
    for (const std::size_t bytes : plan.arenas)
        places_->arenas.push_back(owned(allocate_segment(bytes, queue)));
    places_->requests = std::move(requests);
    places_->places = plan.places;
}

Memory PlannedMemory::allocate(Context& context, std::size_t bytes, Queue& queue)
{
    const std::size_t number = places_->take(bytes);
    if (number == places_->requests.size())
        return owned(context.allocate_block(bytes, queue));
    const MemoryPlace& place = places_->places[number];
    const Memory& arena = places_->arenas[static_cast<std::size_t>(place.arena)];
    auto block = std::make_unique<Block>(*arena);
    block->offset += place.offset;
    block->address = static_cast<char*>(block->address) + place.offset;
    block->size = (std::max<std::size_t>(bytes, 1) + 511) / 512 * 512;   // as places lie
    block->requested = bytes;
    block->queue = queue.id();
    block->previous = block->next = nullptr;
    block->used_on.clear();
    Memory memory(block.release(), [places = places_, number](Block* placed) {
        delete placed;
        places->give_back(number);
    });
    if (poisons_blocks()) [[unlikely]]
        poison(queue, *memory);
    return memory;
}

}  // namespace clprim::detail
