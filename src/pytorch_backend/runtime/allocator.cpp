#include <runtime/allocator.hpp>

#include <c10/util/Exception.h>

#include <runtime/errors.hpp>
#include <runtime/memory_history.hpp>
#include <runtime/prepared_constants.hpp>
#include <runtime/stream.hpp>

namespace torch_ocl {
namespace {

void free_block(void* pointer)
{
    if (pointer == nullptr || in_bad_fork())
        return;
    auto* block = static_cast<clprim::Block*>(pointer);
    clprim::Context& owner = *block->context;
    const void* const address = block->address;
    const std::size_t bytes = block->size;
    MemoryNote note(true);
    note.free_requested(*block);
    owner.free_block(block);
    note.freed(owner, address, bytes);
}

clprim::Block& empty_block(c10::DeviceIndex device)
{
    static std::atomic<clprim::Block*> blocks[max_devices];
    clprim::Context& owner = context(device);
    auto& entry = blocks[owner.device().index];
    if (clprim::Block* block = entry.load())
        return *block;
    clprim::Block* block = owner.allocate_block(0, owner.queue(0));
    clprim::Block* expected = nullptr;
    if (!entry.compare_exchange_strong(expected, block)) {
        owner.free_block(block);
        return *expected;
    }
    return *block;
}

// PyTorch splits every statistic by pool size; clprim keeps one pool, so the aggregate is the only entry.
c10::CachingAllocator::StatArray stat_array(const clprim::MemoryStatistics::Value& value)
{
    c10::CachingAllocator::StatArray result;
    auto& total = result[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    total.current = value.current;
    total.peak = value.peak;
    total.allocated = value.allocated;
    total.freed = value.freed;
    return result;
}

class Allocator final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(std::size_t bytes) override { return allocate_on(-1, bytes); }

    // Blocks are freed by their descriptor, not by their address, so there is no raw interface.
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

    void copy_data(void* target, const void* source, std::size_t count) const override
    {
        clprim::Queue& queue = current_queue(current_device());
        clprim::Block* to = queue.context().find_block(target);
        clprim::Block* from = queue.context().find_block(source);
        TORCH_CHECK(to != nullptr && from != nullptr, "copy_data: not an address of ocl memory");
        const auto distance = [](const void* address, const clprim::Block* block) {
            return static_cast<std::size_t>(static_cast<const char*>(address) - static_cast<char*>(block->address));
        };
        queue.copy(*from, distance(source, from), *to, distance(target, to), count);
    }

    bool initialized() override { return is_initialized(); }

    void emptyCache(c10::MempoolId_t) override
    {
        release_prepared_of_gone();
        for (c10::DeviceIndex i = 0; i < device_count(); ++i)
            if (clprim::Context::created(i))
                context(i).empty_cache();
    }

    void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override
    {
        if (pointer.get() != nullptr)
            place_of(pointer).block->context->record_use(*place_of(pointer).block, queue_of(stream));
    }

    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override
    {
        const clprim::MemoryStatistics from = context(device).memory_statistics();
        c10::CachingDeviceAllocator::DeviceStats stats;
        stats.allocation = stat_array(from.allocation_count);
        stats.segment = stat_array(from.segment_count);
        stats.active = stat_array(from.active_count);
        stats.inactive_split = stat_array(from.inactive_split_count);
        stats.allocated_bytes = stat_array(from.allocated_bytes);
        stats.reserved_bytes = stat_array(from.reserved_bytes);
        stats.active_bytes = stat_array(from.active_bytes);
        stats.inactive_split_bytes = stat_array(from.inactive_split_bytes);
        stats.requested_bytes = stat_array(from.requested_bytes);
        stats.num_alloc_retries = from.retries;
        stats.num_ooms = from.out_of_memory_count;
        stats.num_device_alloc = from.segment_count.allocated;
        stats.num_device_free = from.segment_count.freed;
        return stats;
    }

    void resetAccumulatedStats(c10::DeviceIndex device) override
    {
        context(device).reset_accumulated_memory_statistics();
    }

    void resetPeakStats(c10::DeviceIndex device) override { context(device).reset_peak_memory_statistics(); }

    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) TORCH_OCL_OVERRIDE_SINCE_2_14
    {
        clprim::Context& owner = context(device);
        const std::size_t total = owner.device().global_memory;
        const auto reserved = static_cast<std::size_t>(owner.memory_statistics().reserved_bytes.current);
        return {total - std::min(total, reserved), total};
    }
};

Allocator allocator;
REGISTER_ALLOCATOR(device_type, &allocator)

}  // namespace

c10::DeviceAllocator& device_allocator() { return allocator; }

c10::DataPtr allocate_on(c10::DeviceIndex device, std::size_t bytes)
{
    clprim::Queue& queue = current_queue(device);
    const c10::Device where(device_type, static_cast<c10::DeviceIndex>(queue.device().index));
    if (bytes == 0)
        return {nullptr, where};
    MemoryNote note(false);
    clprim::Block* block = nullptr;
    try {
        block = translate_errors([&] { return queue.context().allocate_block(bytes, queue); });
    } catch (const c10::OutOfMemoryError&) {
        note.out_of_memory(queue, bytes);
        throw;
    }
    note.allocated(*block);
    return {block->address, block, &free_block, where};
}

Place place_of(const c10::DataPtr& pointer)
{
    if (pointer.get_deleter() == &free_block) [[likely]]
        return {static_cast<clprim::Block*>(pointer.get_context()), 0};
    if (pointer.get() == nullptr)
        return {&empty_block(pointer.device().index()), 0};
    clprim::Block* block = context(pointer.device().index()).find_block(pointer.get());
    TORCH_CHECK(block != nullptr, "the storage does not lie in memory of ", pointer.device());
    return {block, static_cast<std::size_t>(static_cast<char*>(pointer.get()) - static_cast<char*>(block->address))};
}

}  // namespace torch_ocl
