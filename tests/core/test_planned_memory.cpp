#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/copy.hpp>
#include <clprim/memory_history.hpp>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include <core/planned_memory.hpp>

using namespace clprim;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;   // elements of the tensors here are bytes

class PlannedMemory : public testing::Test {
protected:
    void SetUp() override
    {
        if (!memory_caching(context))
            GTEST_SKIP() << "CLPRIM_MEMORY_CACHING=0: every allocation has a segment of its own";
    }

    Tensor bytes(std::int64_t count) { return context.empty({count}, DataType::uint8, queue); }

    std::size_t reserved(const detail::MemoryPool& pool)
    {
        std::size_t sum = 0;
        for (const MemorySegmentInfo& segment : memory_segments(context))
            sum += segment.pool == pool.id() ? segment.bytes : 0;
        return sum;
    }

    // Four tensors of which two are alive at a time, the last one longer than the rest; each is found as it was filled.
    Tensor work(std::int64_t extra = 0)
    {
        std::optional<Tensor> first = filled(3 * mebibyte, 1), second = filled(2 * mebibyte + extra, 2);
        expect(*first, 1);
        first.reset();
        std::optional<Tensor> third = filled(3 * mebibyte, 3);
        expect(*second, 2);
        second.reset();
        const Tensor last = filled(1000, 4);
        expect(*third, 3);
        return last;
    }

    Tensor filled(std::int64_t count, int value)
    {
        const Tensor tensor = bytes(count);
        fill(queue, tensor, value);
        return tensor;
    }

    void expect(const Tensor& tensor, int value)
    {
        const std::vector<std::uint8_t> host = queue.read<std::uint8_t>(tensor);
        EXPECT_TRUE(std::ranges::all_of(host, [&](int byte) { return byte == value; }));
    }

    std::vector<MemoryRequest> traced()
    {
        const detail::MemoryPool pool;
        const detail::MemoryPool::Use use(pool);
        const detail::AllocationTrace trace(pool);
        const Tensor last = work();
        return trace.requests();
    }

    Context& context = Context::get(0);
    Queue& queue = context.queue();
};

TEST_F(PlannedMemory, NotesSizesAndLifetimes)
{
    const std::vector<MemoryRequest> requests = traced();
    ASSERT_EQ(requests.size(), 4u);
    EXPECT_EQ(requests[0].bytes, std::size_t{3 * mebibyte});
    EXPECT_LT(requests[1].first, requests[0].last);     // both alive
    EXPECT_LT(requests[0].last, requests[2].first);     // one after the other
    EXPECT_GT(requests[3].last, requests[2].last);      // alive at the end
}

TEST_F(PlannedMemory, TakesWhatIsAliveAtOnce)
{
    const std::vector<MemoryRequest> requests = traced();
    const MemoryPlan plan = plan_memory(requests, context.device().max_allocation);
    auto pool = std::make_unique<detail::MemoryPool>();
    Tensor last;
    {
        const detail::MemoryPool::Use use(*pool);
        const detail::PlannedMemory places(*pool, queue, requests, plan);
        EXPECT_EQ(reserved(*pool), most_alive(requests));
        last = work();
        EXPECT_EQ(reserved(*pool), most_alive(requests));
    }
    expect(last, 4);                                    // longer than the plan
    const std::uint64_t id = pool->id();
    pool.reset();
    last = {};
    for (const MemorySegmentInfo& segment : memory_segments(context))
        EXPECT_NE(segment.pool, id);
}

TEST_F(PlannedMemory, LeavesWhatIsNotAsPlannedToTheAllocator)
{
    const std::vector<MemoryRequest> requests = traced();
    const MemoryPlan plan = plan_memory(requests, context.device().max_allocation);
    const detail::MemoryPool pool;
    const detail::MemoryPool::Use use(pool);
    {
        const detail::PlannedMemory places(pool, queue, requests, plan);
        work(512);                                      // another size
        work();                                         // more than were traced
        EXPECT_GT(reserved(pool), most_alive(requests));
    }
    const detail::PlannedMemory places(pool, queue, requests, plan);
    const Tensor first = filled(3 * mebibyte, 1), second = filled(2 * mebibyte, 2), third = filled(3 * mebibyte, 3);
    expect(first, 1);                                   // still there: the third is not in its place
    expect(second, 2);
    expect(third, 3);
}

TEST_F(PlannedMemory, SeesItsOwnPoolAndThreadAlone)
{
    const detail::MemoryPool pool;
    const detail::AllocationTrace trace(pool);
    bytes(100);
    const detail::MemoryPool::Use use(pool);
    std::thread([&] { bytes(100); }).join();
    EXPECT_TRUE(trace.requests().empty());
    bytes(0);
    EXPECT_EQ(trace.requests().size(), 1u);
}

}  // namespace
