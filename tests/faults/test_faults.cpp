// Calls of OpenCL that fail. Each call of a piece of work fails once, one after another: the work throws one error that
// names what failed, or comes out right; the same work is right afterwards; nothing it held is lost. What fails is
// chosen in the layer that the loader puts between the library and the driver (fault_layer.h).
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/conv.hpp>
#include <clprim/gemm.hpp>
#include <clprim/index.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/recording.hpp>
#include <clprim/reduce.hpp>
#include <clprim/softmax.hpp>

#include "fault_layer.h"
#include "net/small_cnn.hpp"

namespace clprim {
namespace {

class Faults : public testing::Test {
protected:
    void SetUp() override
    {
        devices();   // the loader reads its layers at the first call
        if (!fault_layer_in_use())
            GTEST_SKIP() << "OPENCL_LAYERS does not name the layer of these tests, or this loader knows no layers";
    }
    void TearDown() override { fault_disarm(); }
};

Queue& queue() { return Context::get().queue(); }

Tensor upload(const Dims& shape, float step = 0.01F)
{
    Tensor tensor = Context::get().empty(shape, DataType::float32, queue());
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i * 7 % 23) * step - 0.1F;
    queue().write(tensor, values);
    return tensor;
}

using Values = std::vector<float>;
using Work = std::function<Values()>;

using FailingCalls = std::vector<std::pair<const char*, int>>;

// Calls that a driver may refuse, with what it answers then.
const FailingCalls of_programs = {
    {"clCreateProgramWithSource", CL_OUT_OF_HOST_MEMORY},
    {"clCreateProgramWithBinary", CL_INVALID_BINARY},
    {"clBuildProgram", CL_BUILD_PROGRAM_FAILURE},
    {"clBuildProgram", CL_OUT_OF_HOST_MEMORY},
    {"clCreateKernel", CL_OUT_OF_HOST_MEMORY},
    {"clGetProgramInfo", CL_OUT_OF_RESOURCES},
    {"clGetKernelInfo", CL_OUT_OF_RESOURCES},
    {"clGetKernelWorkGroupInfo", CL_OUT_OF_RESOURCES},
};
const FailingCalls of_work = {
    {"clCreateBuffer", CL_MEM_OBJECT_ALLOCATION_FAILURE},
    {"clGetKernelWorkGroupInfo", CL_OUT_OF_RESOURCES},
    {"clSetKernelArg", CL_OUT_OF_RESOURCES},
    {"clEnqueueNDRangeKernel", CL_OUT_OF_RESOURCES},
    {"clEnqueueNDRangeKernel", CL_INVALID_COMMAND_QUEUE},
    {"clEnqueueReadBuffer", CL_OUT_OF_RESOURCES},
    {"clEnqueueWriteBuffer", CL_OUT_OF_HOST_MEMORY},
    {"clEnqueueCopyBuffer", CL_OUT_OF_RESOURCES},
    {"clEnqueueFillBuffer", CL_OUT_OF_RESOURCES},
    {"clEnqueueMarkerWithWaitList", CL_OUT_OF_HOST_MEMORY},
    {"clEnqueueBarrierWithWaitList", CL_OUT_OF_HOST_MEMORY},
    {"clEnqueueMapBuffer", CL_MAP_FAILURE},
    {"clCreateUserEvent", CL_OUT_OF_HOST_MEMORY},
    {"clSetEventCallback", CL_OUT_OF_HOST_MEMORY},
    {"clGetEventInfo", CL_OUT_OF_RESOURCES},
    {"clGetEventProfilingInfo", CL_PROFILING_INFO_NOT_AVAILABLE},
    {"clWaitForEvents", CL_OUT_OF_RESOURCES},
    {"clFlush", CL_OUT_OF_RESOURCES},
    {"clFinish", CL_OUT_OF_RESOURCES},
};

std::int64_t held()
{
    queue().finish();
    return Context::get().memory_statistics().allocated_bytes.current;
}

// Every such call of `work` fails once, of many each `stride`th. Gives the number of failures.
// `renew` makes the work another one before each.
int sweep(const Work& work, const Values& expected, const FailingCalls& faults = of_work, unsigned long stride = 1,
          const std::function<void()>& renew = [] {})
{
    EXPECT_EQ(work(), expected);
    const std::int64_t before = held();
    int failures = 0;
    for (const auto& [call, code] : faults)
        for (unsigned long nth = 1;; nth += stride) {
            SCOPED_TRACE(testing::Message() << call << " call " << nth << " fails with " << opencl_error_name(code));
            std::string error;
            Values result;
            renew();
            fault_arm(call, nth, code);
            try {
                result = work();
            } catch (const Error& raised) {
                error = raised.what();
            }
            if (fault_disarm() == 0)
                break;
            ++failures;
            if (error.empty())
                EXPECT_EQ(result, expected);
            else
                EXPECT_NE(error.find(code == CL_BUILD_PROGRAM_FAILURE ? "did not compile" : call), std::string::npos)
                    << error;
            EXPECT_EQ(work(), expected);
            EXPECT_EQ(held(), before);
            if (testing::Test::HasFailure())
                return failures;
        }
    return failures;
}

}  // namespace

// First, since a process has one context for a device.
TEST_F(Faults, AContextThatIsRefusedIsAskedForAgain)
{
    if (Context::created(0))
        GTEST_SKIP() << "the device's context is there already";
    for (const char* call : {"clCreateContext", "clCreateCommandQueue"}) {
        fault_arm(call, 0, CL_OUT_OF_HOST_MEMORY);
        try {
            Context::get();
            FAIL() << call;
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(call), std::string::npos) << error.what();
        }
        EXPECT_GT(fault_disarm(), 0U);
        EXPECT_FALSE(Context::created(0));
    }
    EXPECT_EQ(queue().read<float>(upload({2})).size(), 2U);
}

TEST_F(Faults, ProgramsAtFirstUse)
{
    const Tensor x = upload({300}), y = Context::get().empty({300}, DataType::float32, queue());
    int number = 0;   // in the text, so that it was never built
    const auto work = [&] {
        pointwise(queue(), {x}, {y}, {}, "y0 = x0 + 0 * " + std::to_string(number) + ";");
        return queue().read<float>(y);
    };
    EXPECT_GT(sweep(work, work(), of_programs, 1, [&] { ++number; }), 6);   // more where binaries are kept
}

TEST_F(Faults, KernelsAndCopies)
{
    const auto work = [] {
        const Tensor x = upload({6, 64}), w = upload({64, 10}, 0.02F);
        Context& context = Context::get();
        const Tensor product = context.empty({6, 10}, DataType::float32, queue());
        const Tensor y = context.empty({6, 10}, DataType::float32, queue());
        gemm(queue(), gemm_problem(x, w, product), x, w, product);
        softmax(queue(), product, y, 1);
        const Tensor image = upload({1, 4, 9, 9}), filter = upload({8, 4, 3, 3});
        const Tensor convolved = context.empty({1, 8, 7, 7}, DataType::float32, queue());
        conv_forward(queue(), image, filter, {}, convolved, {});
        const Tensor copied = context.empty({8 * 49}, DataType::float32, queue());
        queue().copy(*convolved.memory, 0, *copied.memory, 0, copied.nbytes());
        const Tensor zeros = context.empty({16}, DataType::float32, queue());
        const float zero = 0;
        queue().fill(*zeros.memory, 0, zeros.nbytes(), &zero, sizeof zero);
        Values all = queue().read<float>(y);
        for (const Tensor& more : {copied, zeros})
            for (const float value : queue().read<float>(more))
                all.push_back(value);
        return all;
    };
    EXPECT_GT(sweep(work, work()), 40);
}

TEST_F(Faults, QueuesAndEvents)
{
    const auto work = [] {
        Context& context = Context::get();
        Queue& other = context.queue(1);
        const Tensor x = upload({1000}), y = context.empty({1000}, DataType::float32, queue());
        other.wait_for(queue().record());
        pointwise(other, {x}, {y}, {}, "y0 = 2 * x0;");
        context.record_use(*y.memory, other);
        const Event done = other.record();
        done.wait();
        queue().wait_for(done);
        return queue().read<float>(y);
    };
    EXPECT_GT(sweep(work, work()), 10);
}

TEST_F(Faults, ErrorsOfKernelsAreReportedOnceAndNotInvented)
{
    const Tensor x = upload({10, 4}), out = Context::get().empty({2, 4}, DataType::float32, queue());
    const Tensor index = Context::get().empty({2}, DataType::int64, queue());
    const auto work = [&](std::int64_t second) {
        queue().write(index, std::vector<std::int64_t>{1, second});
        index_select(queue(), x, 0, index, out);
        return queue().read<float>(out);
    };
    const Values expected = work(3);
    EXPECT_GT(sweep([&] { return work(3); }, expected), 5);
    for (const auto& [call, code] : of_work)
        for (unsigned long nth = 1; nth < 40; ++nth) {
            SCOPED_TRACE(testing::Message() << call << " call " << nth);
            bool reported = false;
            fault_arm(call, nth, code);
            try {
                work(77);
            } catch (const IndexError&) {
                reported = true;
            } catch (const Error&) {
            }
            const bool failed = fault_disarm() != 0;
            try {
                queue().finish();
            } catch (const IndexError&) {
                EXPECT_FALSE(reported);
            }
            EXPECT_EQ(work(3), expected);
            if (!failed)
                break;
        }
}

TEST_F(Faults, ANetTrains)
{
    Net net(Context::get());
    net.load_json(test::small_cnn);
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(3);
    test::fill_inputs(net);
    const auto work = [&] {
        net.zero_grad();
        net.forward();
        net.backward();
        Values gradients;
        for (const double v : test::read(net.queue(), net.parameter_gradient("conv1.0")))
            gradients.push_back(static_cast<float>(v));
        return gradients;
    };
    EXPECT_GT(sweep(work, work(), of_work, 5), 40);
}

TEST_F(Faults, ARecordingIsReplayedOrRefused)
{
    const Tensor x = upload({256}), y = Context::get().empty({256}, DataType::float32, queue());
    const auto work = [&] {
        Recording recording(queue());
        pointwise(queue(), {x}, {y}, {}, "y0 = 3 * x0;");
        recording.end();
        recording.replay(queue());
        return queue().read<float>(y);
    };
    EXPECT_GT(sweep(work, work()), 5);
}

// A driver whose memory is full frees what the allocator keeps for later before it gives up.
TEST_F(Faults, MemoryThatIsShortIsFoundInTheCache)
{
    Context& context = Context::get();
    context.allocate(std::size_t{64} << 20, queue());   // kept in the cache
    const auto retries = context.memory_statistics().retries;
    fault_arm("clCreateBuffer", 1, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    EXPECT_NO_THROW(context.allocate(std::size_t{100} << 20, queue()));
    EXPECT_EQ(fault_disarm(), 1U);
    EXPECT_EQ(context.memory_statistics().retries, retries + 1);
    fault_arm("clCreateBuffer", 0, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    EXPECT_THROW(context.allocate(std::size_t{300} << 20, queue()), OutOfMemory);
    fault_disarm();
    EXPECT_NO_THROW(context.allocate(std::size_t{300} << 20, queue()));
}

}  // namespace clprim
