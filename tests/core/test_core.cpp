#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/interop.hpp>
#include <clprim/transfer.hpp>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

using namespace clprim;

namespace {

Context& context() { return Context::get(0); }
Queue& queue() { return context().queue(0); }

Tensor upload(const std::vector<float>& values)
{
    Tensor tensor = context().empty({static_cast<std::int64_t>(values.size())}, DataType::float32, queue());
    queue().write(*tensor.memory, 0, values.data(), tensor.nbytes());
    return tensor;
}

std::vector<float> download(const Tensor& tensor)
{
    std::vector<float> values(tensor.numel());
    queue().read(*tensor.memory, tensor.offset * sizeof(float), values.data(), tensor.nbytes());
    return values;
}

constexpr const char* scale_source = R"(
__kernel void scale(__global const float* x, ulong x_offset, float factor, int n, __global float* y, ulong y_offset)
{
    const int i = get_global_id(0);
    if (i < n)
        y[y_offset + i] = factor * x[x_offset + i];
}
)";

}  // namespace

TEST(Core, WritesLaunchesAndReads)
{
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), 0.f);
    const Tensor x = upload(values), y = context().empty({1000}, DataType::float32, queue());
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    queue().launch(kernel, Range::linear(1000, 64), x, 2.f, cl_int{1000}, y);
    const auto result = download(y);
    for (int i = 0; i < 1000; ++i)
        ASSERT_EQ(result[i], 2.f * i);
}

TEST(Core, AViewIsAnOffset)
{
    std::vector<float> values(100);
    std::iota(values.begin(), values.end(), 0.f);
    const Tensor x = upload(values), y = upload(std::vector<float>(100, -1.f));
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    queue().launch(kernel, Range::linear(10, 16), x.slice(0, 20, 30), 3.f, cl_int{10}, y.slice(0, 50, 60));
    const auto result = download(y);
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(result[i], i >= 50 && i < 60 ? 3.f * (i - 30) : -1.f);
}

TEST(Core, WrongArgumentCountIsNamed)
{
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    const Tensor x = upload({1.f});
    try {
        queue().launch(kernel, Range::linear(1, 1), x, 2.f);
        FAIL() << "a launch with missing arguments passed";
    } catch (const InvalidArgument& error) {
        EXPECT_NE(std::string(error.what()).find("scale"), std::string::npos);
    }
}

TEST(Core, BuildErrorCarriesTheLog)
{
    try {
        context().program_from_text("broken", "__kernel void broken(__global float* x) { x[0] = undeclared_name; }");
        FAIL() << "a broken program was built";
    } catch (const BuildError& error) {
        EXPECT_NE(error.log().find("undeclared_name"), std::string::npos);
    }
    EXPECT_THROW(kernel_source("no/such/file.cl"), InvalidArgument);
}

TEST(Core, StorageHelpersRoundAsIeee)
{
    const std::string source = kernel_source("core/dtype.cl") + R"(
__kernel void convert(__global const float* x, ulong x_offset, __global ushort* half_bits, ulong half_offset,
                      __global ushort* brain_bits, ulong brain_offset)
{
    const int i = get_global_id(0);
    store(float16, half_bits + half_offset, i, x[x_offset + i]);
    store(bfloat16, brain_bits + brain_offset, i, x[x_offset + i]);
}
)";
    // Published encodings: 1.0, ties to even at the last bit, the largest half, infinity, a subnormal half.
    const std::vector<float> values{1.f, 1.00390625f, 1.01171875f, 65504.f, INFINITY, 5.9604645e-8f, -2.f, 0.f};
    const std::vector<std::uint16_t> halves{0x3c00, 0x3c04, 0x3c0c, 0x7bff, 0x7c00, 0x0001, 0xc000, 0},
        brains{0x3f80, 0x3f80, 0x3f82, 0x4780, 0x7f80, 0x3380, 0xc000, 0};
    const Tensor x = upload(values), h = context().empty({8}, DataType::float16, queue()),
                 b = context().empty({8}, DataType::bfloat16, queue());
    queue().launch(context().program_from_text("convert", source).kernel("convert"), Range::linear(8, 8), x, h, b);
    std::vector<std::uint16_t> h_bits(8), b_bits(8);
    queue().read(*h.memory, 0, h_bits.data(), 16);
    queue().read(*b.memory, 0, b_bits.data(), 16);
    EXPECT_EQ(h_bits, halves);
    EXPECT_EQ(b_bits, brains);
}

TEST(Core, DeferredIndexErrorNamesTheOperatorOnce)
{
    const std::string source = kernel_source("core/errors.cl") + R"(
__kernel void fail(__global int* errors, int code) { clprim_index_error(errors, code, 7, 5); }
)";
    Kernel& kernel = context().program_from_text("fail", source).kernel("fail");
    queue().launch(kernel, Range::linear(4, 4), queue().error_buffer(), Queue::error_code("gather"));
    queue().expect_errors();
    try {
        queue().finish();
        FAIL() << "the index error was lost";
    } catch (const IndexError& error) {
        EXPECT_STREQ(error.what(), "gather: index 7 is out of bounds for dimension with size 5");
    }
    queue().finish();   // reported once; the queue goes on working
    EXPECT_EQ(download(upload({1.f, 2.f})), (std::vector<float>{1.f, 2.f}));
}

TEST(Core, LaunchesAndSmallWritesDoNotBlock)
{
    queue().finish();
    const auto before = blocking_calls();
    std::vector<float> values(1000, 1.f);
    Tensor x = upload(values), y = context().empty({1000}, DataType::float32, queue());
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    for (int i = 0; i < 50; ++i)
        queue().launch(kernel, Range::linear(1000, 64), x, 2.f, cl_int{1000}, y);
    EXPECT_EQ(blocking_calls(), before);
    download(y);
    EXPECT_EQ(blocking_calls(), before + 1);
}

TEST(Core, StagedWritesKeepTheirBytes)
{
    // The source is overwritten right after each write: the device must see what was there at the call.
    const Tensor target = context().empty({300, 1000}, DataType::float32, queue());
    std::vector<float> row(1000);
    for (int i = 0; i < 300; ++i) {
        std::fill(row.begin(), row.end(), static_cast<float>(i));
        queue().write(*target.memory, i * 4000, row.data(), 4000);
    }
    const auto result = download(target);
    for (int i = 0; i < 300; ++i)
        ASSERT_EQ(result[i * 1000 + 999], i);
}

TEST(Core, EventsOrderQueues)
{
    Queue& other = context().new_queue();
    const Tensor x = upload(std::vector<float>(1 << 16, 1.f));
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    for (int i = 0; i < 20; ++i)
        queue().launch(kernel, Range::linear(1 << 16, 64), x, 2.f, cl_int{1 << 16}, x);
    other.wait_for(queue().record());
    other.launch(kernel, Range::linear(1 << 16, 64), x, 0.5f, cl_int{1 << 16}, x);
    const Event done = other.record();
    queue().wait_for(done);
    EXPECT_EQ(download(x)[12345], 524288.f);
    EXPECT_TRUE(done.query());
}

// A queue with nothing to do may take bytes at once; behind work that waits they must not arrive before it is done.
TEST(Core, HostAddressIsWhereKernelsFindTheTensor)
{
    const Tensor x = upload({1, 2, 3, 4}), y = upload({0, 0, 0, 0});
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    queue().launch(kernel, Range::linear(4, 4), x, 2.f, cl_int{4}, y);
    queue().finish();
    const auto* here = static_cast<const float*>(host_address(y));
    if (!here)
        GTEST_SKIP() << "kernels of " << context().device().name << " do not work in this process's memory";
    EXPECT_EQ(here[3], 8.f);
    EXPECT_EQ(host_address(y.slice(0, 2, 4)), here + 2);
    const OpenCLMemory memory = memory_of(y);
    EXPECT_EQ(host_address(adopt(context(), memory.buffer, DataType::float32, {1}, memory.offset)), nullptr);
}

TEST(Core, WritesStayInOrder)
{
    Queue& other = context().new_queue();
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    const Tensor x = context().empty({1000}, DataType::float32, other),
                 y = context().empty({1000}, DataType::float32, other);
    for (int round = 0; round < 20; ++round) {
        const std::vector<float> first(1000, 1.f + round), second(1000, -1.f - round);
        other.write(x, first);                              // of an idle queue
        cl_int code = CL_SUCCESS;
        const cl::Event signal(clCreateUserEvent(context().handle()(), &code));
        ASSERT_EQ(code, CL_SUCCESS);
        other.wait_for(Event(signal));
        other.launch(kernel, Range::linear(1000, 64), x, 2.f, cl_int{1000}, y);
        other.write(x, second);
        ASSERT_EQ(clSetUserEventStatus(signal(), CL_COMPLETE), CL_SUCCESS);
        ASSERT_EQ(other.read<float>(y), std::vector<float>(1000, 2.f + 2 * round));
        ASSERT_EQ(other.read<float>(x), second);
    }
}

TEST(Core, QueuesKnowWhetherTheyAreIdle)
{
    Queue& other = context().new_queue();
    EXPECT_TRUE(other.idle());
    for (const bool lent : {false, true}) {
        cl_int code = CL_SUCCESS;
        const cl::Event signal(clCreateUserEvent(context().handle()(), &code));
        ASSERT_EQ(code, CL_SUCCESS);
        if (lent) {   // commands that the library does not see
            const cl_event waited = signal();
            const cl_command_queue handle = other.handle()();
            ASSERT_EQ(clEnqueueBarrierWithWaitList(handle, 1, &waited, nullptr), CL_SUCCESS);
        } else {
            other.wait_for(Event(signal));
        }
        EXPECT_FALSE(other.idle());
        EXPECT_FALSE(other.idle());
        ASSERT_EQ(clSetUserEventStatus(signal(), CL_COMPLETE), CL_SUCCESS);
        other.finish();
        if (!lent)
            EXPECT_TRUE(other.idle());   // known from finish(); nobody need ask the driver
        while (!other.idle())            // each question is a new command of a lent queue: true in the end, not always
            std::this_thread::yield();
    }
    const Tensor x = upload(std::vector<float>(1 << 16, 1.f));
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    other.wait_for(queue().record());
    other.launch(kernel, Range::linear(1 << 16, 64), x, 2.f, cl_int{1 << 16}, x);
    while (!other.idle())
        std::this_thread::yield();
    EXPECT_EQ(download(x)[12345], 2.f);   // of another queue, with nothing to wait for
}

TEST(Core, ThreadsShareAKernel)
{
    Kernel& kernel = context().program_from_text("scale", scale_source).kernel("scale");
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const float factor = static_cast<float>(t * 100 + i);
                const Tensor x = upload({1.f}), y = upload({0.f});
                queue().launch(kernel, Range::linear(1, 1), x, factor, cl_int{1}, y);
                wrong += download(y)[0] != factor;
            }
        });
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Devices, UnknownOnesAreExplained)
{
    EXPECT_THROW(device_at(1000), InvalidArgument);
    EXPECT_THROW(device_at(-1), InvalidArgument);
    EXPECT_THROW(find_device("no such device"), InvalidArgument);
    EXPECT_EQ(find_device("ocl:0"), 0);
    EXPECT_EQ(find_device(devices()[0].id), 0);
}

TEST(Tensors, ViewsAndLayouts)
{
    const Tensor x({}, DataType::float32, {2, 3, 4, 5});
    EXPECT_TRUE(x.is_contiguous());
    const Tensor last = x.permute({0, 2, 3, 1});
    EXPECT_FALSE(last.is_contiguous());
    EXPECT_TRUE(last.is_non_overlapping_and_dense());
    EXPECT_TRUE(x.reshape({2, 4, 5, 3}).permute({0, 3, 1, 2}).is_channels_last());
    EXPECT_EQ(x.slice(1, 1, 2).offset, 20);
    EXPECT_EQ(x.slice(1, 1, 2).expand({7, 2, 3, 4, 5}).strides, (Dims{0, 60, 0, 5, 1}));
    EXPECT_THROW(x.expand({2, 3, 4, 6}), InvalidArgument);
    EXPECT_THROW(x.slice(0, 1, 3), InvalidArgument);
    EXPECT_THROW(last.reshape({120}), InvalidArgument);
    EXPECT_THROW(x.permute({0, 0, 1, 2}), InvalidArgument);
    Dims many(12, 2);
    EXPECT_EQ(many.product(), 4096);
    EXPECT_EQ(Dims(many), many);
}

// An event of another OpenCL context, as of another driver.
struct ForeignEvent {
    cl::Context context{context_of_device()};
    cl::UserEvent event{context};

    static cl::Context context_of_device() { return cl::Context(Context::get(0).device().handle); }
};

TEST(Events, OfAnotherContextAreAwaitedWithoutTheHost)
{
    Queue& waiting = Context::get(0).new_queue();
    const auto calls = blocking_calls();
    ForeignEvent foreign;
    waiting.wait_for(Event(foreign.event));
    const Tensor x = upload({1, 2, 3});
    Tensor y = context().empty({3}, DataType::float32, waiting);
    waiting.copy(*x.memory, 0, *y.memory, 0, y.nbytes());
    const Event done = waiting.record();
    EXPECT_FALSE(done.query());
    EXPECT_EQ(blocking_calls(), calls);
    foreign.event.setStatus(CL_COMPLETE);
    waiting.finish();
    EXPECT_TRUE(done.query());
    waiting.wait_for(Event(foreign.event));   // complete already
    waiting.finish();
}

TEST(Events, FailedWorkOfAnotherContextIsReportedOnceAndHoldsNothingUp)
{
    Queue& waiting = Context::get(0).new_queue();
    ForeignEvent foreign;
    waiting.wait_for(Event(foreign.event));
    const Event after = waiting.record();
    foreign.event.setStatus(CL_INVALID_OPERATION);
    EXPECT_THROW(waiting.finish(), OpenCLError);
    EXPECT_TRUE(after.query());
    waiting.finish();
}

TEST(Queues, RefuseMemoryOfAnotherDevice)
{
    if (devices().size() < 2)
        GTEST_SKIP() << "one device only";
    Context& other = Context::get(1);
    const Tensor here = upload({1, 2, 3}), there = other.empty({3}, DataType::float32, other.queue(0));
    EXPECT_THROW(queue().copy(*here.memory, 0, *there.memory, 0, here.nbytes()), InvalidArgument);
    copy_between({queue(), *here.memory}, {other.queue(0), *there.memory}, here.nbytes());
    std::vector<float> values(3);
    other.queue(0).read(*there.memory, 0, values.data(), there.nbytes());
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}
