// Who runs short launches on CPU devices, and that nobody can tell from the results. Once with CLPRIM_CALLER_THREAD=1,
// so that it does not depend on the time that a loaded machine takes, and once without.
#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/recording.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <core/caller_queue.hpp>
#include <core/queue_handle.hpp>

using namespace clprim;

namespace {

Context& context() { return Context::get(0); }
Queue& queue() { return context().queue(0); }

constexpr const char* source = R"(
__kernel void add(__global float* x, ulong x_offset, float summand)
{
    x[x_offset + get_global_id(0)] += summand;
}

// Some milliseconds, and a sum that no compiler knows.
__kernel void add_slowly(__global float* x, ulong x_offset, float summand, int steps)
{
    float one = summand;
    for (int i = 0; i < steps; ++i)
        one = one * 0.5f + summand * 0.5f;
    x[x_offset + get_global_id(0)] += one;
}

__kernel void halve(__global float* x, ulong x_offset)
{
    x[x_offset + get_global_id(0)] *= 0.5f;
}
)";

Kernel& kernel(const char* name) { return context().program_from_text("caller", source).kernel(name); }

Tensor zeros(std::int64_t n)
{
    Tensor x = context().empty({n}, DataType::float32, queue());
    queue().write(x, std::vector<float>(n, 0.0F));
    return x;
}

void add(Queue& where, const Tensor& x, float summand)
{
    where.launch(kernel("add"), Range::groups(1, x.numel()), x, summand);
}

void add_slowly(Queue& where, const Tensor& x, float summand)
{
    where.launch(kernel("add_slowly"), Range::groups(1, x.numel()), x, summand, cl_int{1 << 20});
}

class CallerQueue : public testing::Test {
protected:
    void SetUp() override
    {
        if (!detail::QueueAccess::caller(queue()))
            GTEST_SKIP() << "this driver has no queue whose commands their thread runs (cl_intel_exec_by_local_thread)";
        const Tensor x = zeros(16);
        for (int i = 0; i < 10000; ++i) {
            queue().finish();
            if (by_callers([&] { add(queue(), x, 1); }) == 1)
                return;
        }
        FAIL() << "no launch of the shortest kernel was run by its thread";
    }

    static bool always()
    {
        const char* const text = std::getenv("CLPRIM_CALLER_THREAD");
        return text && text == std::string("1");
    }

    static std::uint64_t by_callers(auto&& work)
    {
        const std::uint64_t before = detail::commands_by_callers();
        work();
        return detail::commands_by_callers() - before;
    }
};

}  // namespace

TEST_F(CallerQueue, RunsShortKernelsOnceTheyAreKnown)
{
    const Tensor x = zeros(16);
    queue().finish();
    const auto count = by_callers([&] {
        for (int i = 0; i < 5; ++i)
            add(queue(), x, 1);
    });
    if (always())
        EXPECT_EQ(count, 5);
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, 5));
}

TEST_F(CallerQueue, LeavesLongKernelsToTheDriver)
{
    if (always())
        GTEST_SKIP() << "CLPRIM_CALLER_THREAD=1 leaves it none";
    const Tensor x = zeros(16);
    EXPECT_EQ(by_callers([&] {
                  for (int i = 0; i < 5; ++i) {
                      add_slowly(queue(), x, 1);
                      queue().finish();
                  }
              }),
              0);
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, 5));
}

TEST_F(CallerQueue, ShortKernelsFollowLongOnesInOrder)
{
    const Tensor x = zeros(16);
    queue().finish();
    for (int i = 0; i < 20; ++i) {
        add_slowly(queue(), x, 1);
        add(queue(), x, 2);
        queue().launch(kernel("halve"), Range::groups(1, 16), x);   // (value + 3) / 2
    }
    float expected = 0;
    for (int i = 0; i < 20; ++i)
        expected = (expected + 3) / 2;
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, expected));
}

TEST_F(CallerQueue, ReturnsToTheCallerWithoutAWait)
{
    const Tensor x = zeros(16);
    queue().finish();
    const std::uint64_t waits = blocking_calls();
    add_slowly(queue(), x, 1);
    const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int launches = 0;
    while (by_callers([&] { add(queue(), x, 1); }) == 0 && std::chrono::steady_clock::now() < enough) {
        ++launches;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LT(std::chrono::steady_clock::now(), enough);
    EXPECT_EQ(blocking_calls(), waits);
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, static_cast<float>(launches + 2)));
}

TEST_F(CallerQueue, ComputesInTheDefaultFloatEnvironment)
{
#ifndef CLPRIM_HAS_MXCSR
    GTEST_SKIP() << "the register that holds it is one of x86";
#else
    constexpr float small = std::numeric_limits<float>::min();
    const Tensor x = zeros(16);
    queue().write(x, std::vector<float>(16, small));
    queue().finish();
    const unsigned before = _mm_getcsr();
    constexpr unsigned flushing = 0x8040, upwards = 0x4000;
    _mm_setcsr(before | flushing | upwards);
    queue().launch(kernel("halve"), Range::groups(1, 16), x);
    add_slowly(queue(), x, 0);   // which the thread that waits for it may run
    const auto values = queue().read<float>(x);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & (flushing | upwards), flushing | upwards);
    EXPECT_EQ(values, std::vector<float>(16, small / 2));
#endif
}

TEST_F(CallerQueue, ThreadsLaunchAtOnce)
{
    constexpr int threads = 4, launches = 2000;
    std::vector<Tensor> sums;
    for (int i = 0; i < threads; ++i)
        sums.push_back(zeros(16));
    queue().finish();
    {
        std::vector<std::jthread> running;
        for (int i = 0; i < threads; ++i)
            running.emplace_back([&, i] {
                for (int j = 0; j < launches; ++j) {
                    add(queue(), sums[i], 1);
                    if (j % 500 == 499)
                        add_slowly(queue(), sums[i], 1);
                }
            });
    }
    for (const Tensor& sum : sums)
        EXPECT_EQ(queue().read<float>(sum), std::vector<float>(16, launches + launches / 500));
}

TEST_F(CallerQueue, OtherQueuesWaitForWhatWasDone)
{
    Queue& other = context().new_queue();
    const Tensor x = zeros(16);
    queue().finish();
    for (int i = 0; i < 50; ++i) {
        add(queue(), x, 1);
        other.wait_for(queue().record());
        add_slowly(other, x, 1);
        queue().wait_for(other.record());
    }
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, 100));
}

TEST_F(CallerQueue, RunsCopiesAndFillsOfFewBytes)
{
    const Tensor x = zeros(16), y = zeros(16);
    const float one = 1;
    queue().finish();
    EXPECT_EQ(by_callers([&] {
                  queue().fill(*x.memory, 0, x.nbytes(), &one, sizeof one);
                  queue().copy(*x.memory, 0, *y.memory, 32, 32);
              }),
              2);
    std::vector<float> expected(16, 0);
    std::fill(expected.begin() + 8, expected.end(), 1.0F);
    EXPECT_EQ(queue().read<float>(y), expected);
}

TEST_F(CallerQueue, ReplaysShortRecordingsWhole)
{
    const Tensor x = zeros(16), y = zeros(16);
    queue().finish();
    Recording recording(queue());
    for (int i = 0; i < 6; ++i)
        add(queue(), x, 1);
    queue().copy(*x.memory, 0, *y.memory, 0, x.nbytes());
    recording.end();
    std::uint64_t last = 0;
    int replays = 0;
    for (; last < 7 && replays < 2000; ++replays) {
        last = by_callers([&] { recording.replay(queue()); });
        queue().finish();
    }
    EXPECT_EQ(last, 7);
    EXPECT_EQ(queue().read<float>(y), std::vector<float>(16, 6.0F * replays));
}

TEST_F(CallerQueue, LeavesLongRecordingsToTheDriver)
{
    if (always())
        GTEST_SKIP() << "CLPRIM_CALLER_THREAD=1 leaves it none";
    const Tensor x = zeros(16);
    queue().finish();
    Recording recording(queue());
    for (int i = 0; i < 3; ++i)
        add_slowly(queue(), x, 1);
    recording.end();
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(by_callers([&] { recording.replay(queue()); }), 0);
        queue().finish();
    }
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, 30));
}

// What others enqueue in a queue that was given to them is not counted, and not known to be done.
TEST(CallerQueueOfOthers, StaysWithTheDriver)
{
    Queue& lent = context().new_queue();
    const Tensor x = zeros(16);
    queue().finish();
    EXPECT_NE(lent.handle()(), nullptr);
    const std::uint64_t before = detail::commands_by_callers();
    for (int i = 0; i < 5; ++i) {
        add(lent, x, 1);
        lent.finish();
    }
    EXPECT_EQ(detail::commands_by_callers(), before);
    EXPECT_EQ(queue().read<float>(x), std::vector<float>(16, 5));
}
