// What the caching allocator did and holds, in the format of torch.cuda.memory._snapshot; reports to torch.profiler.
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/Allocator.h>
#include <clprim/memory.hpp>
#include <clprim/queue.hpp>

namespace torch_ocl {

namespace detail {
extern std::atomic<bool> memory_history_recorded;
}

// While an allocation or a free is under way: gathers the caller's stack before any lock is taken, and lends it to what
// the allocator does meanwhile. Costs two loads when neither history nor profile is recorded.
class MemoryNote {
public:
    explicit MemoryNote(bool freeing);
    ~MemoryNote();
    MemoryNote(const MemoryNote&) = delete;

    void allocated(const clprim::Block& block);
    void out_of_memory(const clprim::Queue& queue, std::size_t bytes);
    void free_requested(const clprim::Block& block);   // before it is freed
    void freed(const clprim::Context& context, const void* address, std::size_t bytes);   // after

private:
    const bool history_, profile_;
    std::shared_ptr<c10::GatheredContext> context_;
};

}  // namespace torch_ocl
