#include <gtest/gtest.h>

#include <clprim/clprim.hpp>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <core/caching_allocator.hpp>
#include <core/poison.hpp>

using namespace clprim;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// Each test starts from an empty cache and sees only its own allocations.
class Allocator : public testing::Test {
protected:
    void SetUp() override
    {
        queue.finish();
        context.empty_cache();
        start = context.memory_statistics();
    }
    void TearDown() override { context.set_memory_limit(0); }

    std::int64_t reserved() const
    {
        return context.memory_statistics().reserved_bytes.current - start.reserved_bytes.current;
    }
    std::int64_t allocated() const
    {
        return context.memory_statistics().allocated_bytes.current - start.allocated_bytes.current;
    }

    Context& context = Context::get(0);
    Queue& queue = context.queue(0);
    MemoryStatistics start;
};

}  // namespace

TEST_F(Allocator, ReusesWhatWasFreed)
{
    void* address = context.allocate(3 * mebibyte, queue)->address;
    const auto before = reserved();
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(context.allocate(3 * mebibyte, queue)->address, address);
    EXPECT_EQ(reserved(), before);
    EXPECT_EQ(allocated(), 0);
    context.empty_cache();
    EXPECT_EQ(reserved(), 0);
}

TEST_F(Allocator, LargeBlocksServeSmallerRequests)
{
    context.allocate(128 * mebibyte, queue).reset();
    const auto before = reserved();
    const Memory a = context.allocate(12 * mebibyte, queue), b = context.allocate(50 * mebibyte, queue);
    EXPECT_EQ(reserved(), before);
}

TEST_F(Allocator, BlocksNeverOverlap)
{
    std::mt19937 random(1);
    std::vector<Memory> live;
    for (int step = 0; step < 2000; ++step) {
        if (!live.empty() && random() % 3 == 0) {
            live.erase(live.begin() + random() % live.size());
            continue;
        }
        if (live.size() > 200)
            live.clear();
        live.push_back(context.allocate(random() % 5 == 0 ? random() % (4 * mebibyte) : random() % 5000, queue));
        const Block& block = *live.back();
        ASSERT_GE(block.size, block.requested);
        ASSERT_EQ(block.offset % 512, 0u);
    }
    std::map<char*, std::size_t> ranges;
    for (const auto& memory : live)
        ASSERT_TRUE(ranges.emplace(static_cast<char*>(memory->address), memory->size).second);
    char* end = nullptr;
    for (auto [address, size] : ranges) {
        ASSERT_GE(address, end);
        end = address + size;
    }
    live.clear();
    EXPECT_EQ(allocated(), 0);
    context.empty_cache();
    EXPECT_EQ(reserved(), 0) << "free neighbours were not merged back into whole segments";
}

TEST_F(Allocator, BlocksOfOneSegmentKeepTheirBytes)
{
    std::vector<Memory> blocks;
    for (unsigned i = 0; i < 64; ++i) {
        blocks.push_back(context.allocate(1000, queue));
        const unsigned char value = static_cast<unsigned char>(i);
        queue.fill(*blocks.back(), 0, 1000, &value, 1);
    }
    for (unsigned i = 0; i < 64; ++i) {
        std::vector<unsigned char> bytes(1000);
        queue.read(*blocks[i], 0, bytes.data(), bytes.size());
        EXPECT_EQ(std::set<unsigned char>(bytes.begin(), bytes.end()),
                  std::set<unsigned char>{static_cast<unsigned char>(i)});
    }
}

TEST_F(Allocator, FindsTheBlockOfAnAddress)
{
    const Memory a = context.allocate(5000, queue), b = context.allocate(5000, queue);
    EXPECT_EQ(context.find_block(static_cast<char*>(a->address) + 4999), a.get());
    EXPECT_EQ(context.find_block(b->address), b.get());
    int on_the_stack = 0;
    EXPECT_EQ(context.find_block(&on_the_stack), nullptr);
}

TEST_F(Allocator, LimitGivesOutOfMemoryThatSaysSizes)
{
    context.set_memory_limit(start.reserved_bytes.current + 64 * mebibyte);
    const Memory held = context.allocate(40 * mebibyte, queue);
    try {
        context.allocate(40 * mebibyte, queue);
        FAIL() << "more was handed out than the limit allows";
    } catch (const OutOfMemory& error) {
        EXPECT_EQ(error.requested(), 40 * mebibyte);
        EXPECT_NE(std::string(error.what()).find("40.00 MiB"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(context.allocate(10 * mebibyte, queue));   // the device goes on working
}

TEST_F(Allocator, CachedMemoryMakesRoomBeforeItFails)
{
    context.set_memory_limit(start.reserved_bytes.current + 64 * mebibyte);
    context.allocate(40 * mebibyte, queue);   // freed at once: cached
    const Memory other = context.allocate(60 * mebibyte, queue);
    EXPECT_GT(context.memory_statistics().retries, start.retries);
}

TEST_F(Allocator, ImpossibleSizesAreRefused)
{
    EXPECT_THROW(context.allocate(SIZE_MAX, queue), OutOfMemory);
    EXPECT_THROW(context.allocate(std::size_t{1} << 60, queue), OutOfMemory);
    EXPECT_NE(context.allocate(0, queue)->buffer, nullptr);
    EXPECT_THROW(context.empty({-1, 2}, DataType::float32, queue), InvalidArgument);
}

TEST_F(Allocator, ABlockUsedOnAnotherQueueWaitsForIt)
{
    Queue& other = context.new_queue();
    Memory block = context.allocate(8 * mebibyte, queue);
    void* address = block->address;
    const cl_event gate = clCreateUserEvent(context.handle()(), nullptr);
    ASSERT_NE(gate, nullptr);
    other.wait_for(Event(cl::Event(gate, true)));   // the other queue is held up
    const int zero = 0;
    other.fill(*block, 0, 1024, &zero, sizeof zero);
    context.record_use(*block, other);
    block.reset();
    EXPECT_NE(context.allocate(8 * mebibyte, queue)->address, address);
    clSetUserEventStatus(gate, CL_COMPLETE);
    clReleaseEvent(gate);
    other.finish();
    context.empty_cache();
    EXPECT_EQ(reserved(), 0);
}

TEST_F(Allocator, WhatIsFreedWaitsForAnAwaitedQueueWhileThatHasWork)
{
    static Queue& awaited = context.new_queue();
    context.await_before_reuse(awaited);
    const auto address_of_next = [&] { return context.allocate(8 * mebibyte, queue)->address; };
    void* address = address_of_next();
    EXPECT_EQ(address_of_next(), address);          // nothing to wait for
    const int zero = 0;
    const Memory target = context.allocate(1024, awaited);
    const cl_event gate = clCreateUserEvent(context.handle()(), nullptr);
    ASSERT_NE(gate, nullptr);
    awaited.wait_for(Event(cl::Event(gate, true)));   // held up
    awaited.fill(*target, 0, 1024, &zero, sizeof zero);
    EXPECT_EQ(address_of_next(), address);
    EXPECT_NE(address_of_next(), address);          // since the last one was freed when there was work
    clSetUserEventStatus(gate, CL_COMPLETE);
    clReleaseEvent(gate);
    awaited.finish();
    EXPECT_EQ(address_of_next(), address);
    EXPECT_EQ(address_of_next(), address);
}

TEST_F(Allocator, PoisonedBlocksHoldNaN)
{
    if (!detail::poisons_blocks())
        GTEST_SKIP() << "CLPRIM_POISON is off";
    std::vector<float> zeros(300), found(300);
    {
        const Memory used = context.allocate(1200, queue);
        queue.write(*used, 0, zeros.data(), 1200);
    }
    const Memory again = context.allocate(1200, queue);   // what was freed above
    queue.read(*again, 0, found.data(), 1200);
    for (float value : found)
        EXPECT_NE(value, value);
}

TEST_F(Allocator, WithoutCachingEveryBlockIsABufferOfItsSize)
{
    ::setenv("CLPRIM_MEMORY_CACHING", "0", 1);
    CachingAllocator allocator(context);
    ::unsetenv("CLPRIM_MEMORY_CACHING");
    Block* blocks[] = {allocator.allocate(10, queue), allocator.allocate(3, queue)};
    EXPECT_NE(blocks[0]->buffer, blocks[1]->buffer);
    for (Block* block : blocks) {
        std::size_t bytes = 0;
        clGetMemObjectInfo(block->buffer, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
        EXPECT_EQ(bytes, block->requested);
        EXPECT_EQ(block->offset, 0u);
        EXPECT_EQ(allocator.find(block->address), block);
        allocator.free(block);
    }
    EXPECT_EQ(allocator.statistics().reserved_bytes.current, 0);
}
