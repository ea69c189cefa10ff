// Memory for work that is done again and again with the same allocations: noted the first time, placed together for the
// next, so that the whole takes little more than what is alive at once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <clprim/memory.hpp>
#include <core/memory_plan.hpp>
#include <core/memory_pool.hpp>

CLPRIM_API_BEGIN
namespace clprim::detail {

// Allocates in the place of the caching allocator what this thread takes from a pool while it is the thread's current
// one.
class AllocationGuide {
public:
    explicit AllocationGuide(const MemoryPool& pool);
    AllocationGuide(const AllocationGuide&) = delete;
    virtual ~AllocationGuide();

    virtual Memory allocate(Context& context, std::size_t bytes, Queue& queue) = 0;

    static AllocationGuide* current() noexcept;   // of this thread and its current pool; null: none

private:
    std::uint64_t pool_;
    AllocationGuide* before_;
};

// Notes sizes and lifetimes of allocations; steps are allocations and releases, in their order.
class AllocationTrace : public AllocationGuide {
public:
    explicit AllocationTrace(const MemoryPool& pool);

    Memory allocate(Context& context, std::size_t bytes, Queue& queue) override;
    std::vector<MemoryRequest> requests() const;   // what is alive now stays so

private:
    struct Noted;
    std::shared_ptr<Noted> noted_;
};

// Gives the allocations of a trace their places in one piece of memory. One that comes in another order, with another
// size, or while its place is taken, is left to the caching allocator.
class PlannedMemory : public AllocationGuide {
public:
    // The memory comes from the pool. Throws OutOfMemory.
    PlannedMemory(const MemoryPool& pool, Queue& queue, std::vector<MemoryRequest> requests, const MemoryPlan& plan);

    Memory allocate(Context& context, std::size_t bytes, Queue& queue) override;

private:
    struct Places;
    std::shared_ptr<Places> places_;
};

}  // namespace clprim::detail
CLPRIM_API_END
