// Profiles, recordings and pools of memory, without PyTorch.
#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/memory_history.hpp>
#include <clprim/profile.hpp>
#include <clprim/recording.hpp>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

using namespace clprim;

namespace {

Context& context() { return Context::get(0); }
Queue& queue() { return context().queue(0); }

constexpr const char* add_source = R"(
__kernel void add(__global float* x, ulong x_offset, float summand, int n, __local float* unused)
{
    const int i = get_global_id(0);
    if (i < n)
        x[x_offset + i] += summand;
}
)";

Tensor zeros(std::int64_t n)
{
    Tensor x = context().empty({n}, DataType::float32, queue());
    const float zero = 0;
    queue().fill(*x.memory, 0, x.nbytes(), &zero, sizeof zero);
    return x;
}

void add(Queue& where, const Tensor& x, float summand)
{
    Kernel& kernel = context().program_from_text("add", add_source).kernel("add");
    where.launch(kernel, Range::linear(x.numel(), 16), x, summand, static_cast<cl_int>(x.numel()), LocalMemory{64});
}

std::vector<float> download(const Tensor& x)
{
    std::vector<float> values(x.numel());
    queue().read(*x.memory, 0, values.data(), x.nbytes());
    return values;
}

std::int64_t now()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

TEST(Profile, HasEveryCommandInItsOrder)
{
    Tensor x = zeros(100);
    add(queue(), x, 1);
    queue().finish();
    const std::int64_t before = now();
    Profile profile;
    push_correlation(7);
    add(queue(), x, 1);
    pop_correlation();
    const Tensor y = zeros(100);
    queue().copy(*x.memory, 0, *y.memory, 0, x.nbytes());
    download(y);
    const auto commands = profile.stop();
    ASSERT_GE(commands.size(), 4u);   // poisoned memory has fills of its own
    EXPECT_EQ(commands[0].name, "add");
    EXPECT_EQ(commands[0].correlation, 7u);
    EXPECT_EQ(commands[0].global[0], 112u);
    EXPECT_EQ(commands[0].local[0], 16u);
    EXPECT_EQ(commands[1].correlation, 0u);
    EXPECT_EQ(commands.back().kind, ProfiledCommand::Kind::read);
    EXPECT_EQ(commands.back().bytes, 400u);
    EXPECT_EQ(commands[commands.size() - 2].kind, ProfiledCommand::Kind::copy);
    std::int64_t last = 0;
    for (const ProfiledCommand& command : commands) {
        EXPECT_LE(command.started, command.ended);
        EXPECT_LE(last, command.started) << "of an in-order queue";
        last = command.started;
        // Within ten milliseconds of the host's clock.
        EXPECT_GE(command.started, before - 10'000'000);
        EXPECT_LE(command.ended, now() + 10'000'000);
        EXPECT_LE(command.enqueue_started, command.enqueued);
    }
    add(queue(), x, 1);
    EXPECT_TRUE(profile.stop().empty());
}

TEST(Profile, SeveralAtATime)
{
    const Tensor x = zeros(10);
    Profile outer;
    add(queue(), x, 1);
    Profile inner;
    add(queue(), x, 1);
    EXPECT_EQ(inner.stop().size(), 1u);
    add(queue(), x, 1);
    EXPECT_EQ(outer.stop().size(), 3u);
}

TEST(Recording, ReplaysWhatWasNotDone)
{
    Queue& recorded = context().new_queue();
    Tensor x = zeros(50), y = zeros(50);
    const std::vector<float> pageable(50, 5.f);
    std::vector<float> pinned(50, 1.f);
    queue().finish();
    Recording recording(recorded);
    EXPECT_TRUE(is_recording(recorded));
    EXPECT_FALSE(is_recording(queue()));
    recorded.write(*x.memory, 0, pinned.data(), x.nbytes(), true);
    add(recorded, x, 2);
    recorded.copy(*x.memory, 0, *y.memory, 0, x.nbytes());
    add(recorded, y, 10);
    recording.end();
    EXPECT_EQ(download(x)[0], 0.f);
    EXPECT_EQ(recording.commands().size(), 4u);
    EXPECT_EQ(recording.commands()[1].name, "add");
    recording.replay(queue());
    EXPECT_EQ(download(y)[49], 13.f);
    pinned.assign(50, 4.f);
    recording.replay(queue());
    EXPECT_EQ(download(x)[0], 6.f);
    EXPECT_EQ(download(y)[0], 16.f);
    queue().finish();
}

TEST(Recording, RefusesWhatCannotBeKept)
{
    Queue& recorded = context().new_queue();
    const Tensor x = zeros(10);
    queue().finish();
    std::vector<float> values(10);
    Recording recording(recorded);
    EXPECT_THROW(recorded.finish(), Error);
    EXPECT_THROW(recorded.read(*x.memory, 0, values.data(), x.nbytes()), Error);
    EXPECT_THROW(queue().wait_for(recorded.record()), Error);
    EXPECT_THROW(Recording{recorded}, Error);
    EXPECT_THROW(recording.replay(queue()), Error);
    recording.end();
    EXPECT_NO_THROW(recorded.finish());
    EXPECT_NO_THROW(recording.replay(queue()));
}

TEST(MemoryPools, KeepTheirSegments)
{
    context().empty_cache();
    const std::uint64_t pool = new_memory_pool();
    const auto segments = [&] {
        std::size_t count = 0;
        for (const MemorySegmentInfo& segment : memory_segments(context()))
            count += segment.pool == pool;
        return count;
    };
    const std::uint64_t before = exchange_memory_pool(pool);
    Memory inside = context().allocate(4096, queue());
    EXPECT_EQ(exchange_memory_pool(before), pool);
    const Memory outside = context().allocate(4096, queue());
    EXPECT_EQ(segments(), 1u);
    for (const MemorySegmentInfo& segment : memory_segments(context()))
        for (const MemoryBlockInfo& block : segment.blocks) {
            if (block.address == inside->address) {
                EXPECT_EQ(segment.pool, pool);
                EXPECT_EQ(block.state, MemoryBlockInfo::State::active);
                EXPECT_EQ(block.requested, 4096u);
            }
            if (block.address == outside->address) {
                EXPECT_NE(segment.pool, pool);
            }
        }
    inside.reset();
    context().empty_cache();
    EXPECT_EQ(segments(), 1u);
    release_memory_pool(pool);
    EXPECT_EQ(segments(), 0u);                       // nobody could ask for them again

    Queue& bound = context().new_queue();
    const std::uint64_t second = new_memory_pool();
    bind_memory_pool(bound, second);
    {
        const Memory block = context().allocate(4096, bound);
        bool found = false;
        for (const MemorySegmentInfo& segment : memory_segments(context()))
            found |= segment.pool == second && segment.queue == bound.id();
        EXPECT_TRUE(found);
    }
    bind_memory_pool(bound, 0);
    const auto of_second = [&] {
        return std::ranges::count(memory_segments(context()), second, &MemorySegmentInfo::pool);
    };
    {
        const std::uint64_t outer = exchange_memory_pool(second);
        const Memory last = context().allocate(8 << 20, queue());
        exchange_memory_pool(outer);
        release_memory_pool(second);
        EXPECT_EQ(of_second(), 1);                   // that of the bound queue is free and went
    }
    EXPECT_EQ(of_second(), 0);
}
