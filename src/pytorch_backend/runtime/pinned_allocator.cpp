#include <runtime/pinned_allocator.hpp>

#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/util/Exception.h>

#include <runtime/errors.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

struct PinnedBlock {
    cl::Buffer buffer;
    cl::CommandQueue queue;                 // of the mapping
    void* address = nullptr;
    std::size_t size = 0;
    std::vector<clprim::Event> events;      // copies that may still use the block
};

constexpr std::size_t smallest_block = 512;

class PinnedAllocator final : public at::HostAllocator {
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        if (bytes == 0)
            return {nullptr, c10::Device(c10::DeviceType::CPU)};
        PinnedBlock* block = take(std::bit_ceil(std::max(bytes, smallest_block)));
        return {block->address, block, &release, c10::Device(c10::DeviceType::CPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* target, const void* source, std::size_t count) const override
    {
        default_copy_data(target, source, count);
    }

    bool record_event(void* address, void*, c10::Stream stream) override
    {
        return record(address, queue_of(stream));
    }

    bool record(const void* address, clprim::Queue& queue)
    {
        const std::lock_guard lock(mutex_);
        PinnedBlock* block = find(address);
        if (block == nullptr)
            return false;
        std::erase_if(block->events, [](const clprim::Event& event) { return event.query(); });
        block->events.push_back(queue.record());
        return true;
    }

    bool owns(const void* address)
    {
        const std::lock_guard lock(mutex_);
        return find(address) != nullptr;
    }

    void empty_cache() override
    {
        const std::lock_guard lock(mutex_);
        for (auto it = free_.begin(); it != free_.end();) {
            if (!ready(*it->second)) {
                ++it;
                continue;
            }
            destroy(*it->second);
            it = free_.erase(it);
        }
    }

    at::HostStats get_stats() override
    {
        const std::lock_guard lock(mutex_);
        return stats_;
    }
    void reset_accumulated_stats() override
    {
        const std::lock_guard lock(mutex_);
        for (auto* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests, &stats_.active_bytes})
            stat->reset_accumulated();
    }
    void reset_peak_stats() override
    {
        const std::lock_guard lock(mutex_);
        for (auto* stat : {&stats_.allocations, &stats_.allocated_bytes, &stats_.active_requests, &stats_.active_bytes})
            stat->reset_peak();
    }

private:
    static void release(void* pointer);

    static bool ready(PinnedBlock& block)
    {
        std::erase_if(block.events, [](const clprim::Event& event) { return event.query(); });
        return block.events.empty();
    }

    PinnedBlock* take(std::size_t size)
    {
        const std::lock_guard lock(mutex_);
        for (auto [it, end] = free_.equal_range(size); it != end; ++it) {
            if (PinnedBlock* block = it->second; ready(*block)) {
                free_.erase(it);
                count_use(*block);
                return block;
            }
        }
        PinnedBlock* block = make(size);
        count_use(*block);
        return block;
    }

    void count_use(const PinnedBlock& block)
    {
        stats_.active_requests.increase(1);
        stats_.active_bytes.increase(static_cast<std::int64_t>(block.size));
    }

    PinnedBlock* make(std::size_t size)
    {
        clprim::Context& context = current_queue(current_device()).context();
        auto block = std::make_unique<PinnedBlock>();
        block->size = size;
        block->queue = mapping_queue(context);
        try {
            block->buffer = cl::Buffer(context.handle(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size);
            block->address = block->queue.enqueueMapBuffer(block->buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size);
        }
        catch (const cl::Error& error) {
            TORCH_CHECK_WITH(OutOfMemoryError, false, "could not allocate ", size, " bytes of pinned memory: ",
                             clprim::opencl_error_name(error.err()));
        }
        PinnedBlock* result = block.get();
        blocks_[result->address] = std::move(block);
        stats_.allocations.increase(1);
        stats_.allocated_bytes.increase(static_cast<std::int64_t>(size));
        return result;
    }

    // Mapping waits for what is in its queue, and a queue of the library's that it is asked of counts as lent.
    const cl::CommandQueue& mapping_queue(clprim::Context& context)
    {
        cl::CommandQueue& queue = mapping_queues_[&context];
        if (!queue())
            queue = clprim::Queue(context, -1, false).handle();
        return queue;
    }

    void destroy(PinnedBlock& block)
    {
        block.queue.enqueueUnmapMemObject(block.buffer, block.address);
        stats_.allocations.decrease(1);
        stats_.allocated_bytes.decrease(static_cast<std::int64_t>(block.size));
        blocks_.erase(block.address);
    }

    PinnedBlock* find(const void* address) const
    {
        auto it = blocks_.upper_bound(address);
        if (it == blocks_.begin())
            return nullptr;
        PinnedBlock* block = std::prev(it)->second.get();
        return address < static_cast<char*>(block->address) + block->size ? block : nullptr;
    }

    std::mutex mutex_;
    at::HostStats stats_;
    std::map<const void*, std::unique_ptr<PinnedBlock>> blocks_;   // all, by address
    std::multimap<std::size_t, PinnedBlock*> free_;                // by size
    std::map<const clprim::Context*, cl::CommandQueue> mapping_queues_;
};

// Never destroyed: storages may outlive static objects.
PinnedAllocator& instance()
{
    static auto* allocator = new PinnedAllocator();
    return *allocator;
}

void PinnedAllocator::release(void* pointer)
{
    if (in_bad_fork())
        return;
    auto* block = static_cast<PinnedBlock*>(pointer);
    const std::lock_guard lock(instance().mutex_);
    instance().stats_.active_requests.decrease(1);
    instance().stats_.active_bytes.decrease(static_cast<std::int64_t>(block->size));
    instance().free_.emplace(block->size, block);
}

const at::HostAllocatorRegistry<device_type> registered(&instance());

}  // namespace

c10::Allocator& pinned_allocator() { return instance(); }
bool is_pinned(const void* address) { return is_initialized() && instance().owns(address); }
void record_pinned_use(const void* address, clprim::Queue& queue) { instance().record(address, queue); }

}  // namespace torch_ocl
