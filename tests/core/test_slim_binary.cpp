#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <core/slim_binary.hpp>

#include <algorithm>
#include <random>

using namespace clprim;
using Bytes = std::vector<unsigned char>;

namespace {

// Helpers that call each other, kernels that share them, local memory, a constant table, and what the front end leaves
// as metadata: required sizes, vectors, names.
const char* const source = R"(
__constant int table[4] = {3, 1, 4, 1};
static int twice(int x) { return 2 * x; }
static int deep(int x) { for (int i = 0; i < 3; ++i) x = twice(x) + table[i]; return x; }
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void first(__global int* y, ulong offset, int a)
{
    __local int shared[4];
    shared[get_local_id(0)] = deep(a + (int)get_local_id(0));
    barrier(CLK_LOCAL_MEM_FENCE);
    y[offset + get_global_id(0)] = shared[3 - get_local_id(0)];
}
__kernel void second(__global int* y, ulong offset, float4 v) { y[offset] = twice((int)(v.x + v.w)) + table[2]; }
)";

struct Built {
    cl::Context context;
    cl::Device device;
    Bytes binary;
};

// Nothing where there is no such driver.
std::optional<Built> built()
{
    for (const Device& device : devices()) {
        if (device.platform_name != "Intel(R) OpenCL")
            continue;
        const cl::Context context(device.handle);
        cl::Program program(context, std::string(source));
        program.build({device.handle});
        return Built{context, device.handle, program.getInfo<CL_PROGRAM_BINARIES>()[0]};
    }
    return std::nullopt;
}

std::vector<int> results(const Built& built, const Bytes& binary)
{
    cl::Program program(built.context, {built.device}, cl::Program::Binaries{binary});
    program.build({built.device});
    const cl::CommandQueue queue(built.context, built.device);
    const cl::Buffer memory(built.context, CL_MEM_READ_WRITE, 9 * sizeof(cl_int));
    cl::Kernel first(program, "first"), second(program, "second");
    first.setArg(0, memory), first.setArg(1, cl_ulong{1}), first.setArg(2, cl_int{5});
    second.setArg(0, memory), second.setArg(1, cl_ulong{0}), second.setArg(2, cl_float4{{1, 2, 3, 4}});
    EXPECT_EQ(first.getWorkGroupInfo<CL_KERNEL_COMPILE_WORK_GROUP_SIZE>(built.device)[0], 4u);
    queue.enqueueNDRangeKernel(first, cl::NullRange, cl::NDRange(8), cl::NDRange(4));
    queue.enqueueNDRangeKernel(second, cl::NullRange, cl::NDRange(1));
    std::vector<int> result(9);
    queue.enqueueReadBuffer(memory, CL_TRUE, 0, 9 * sizeof(cl_int), result.data());
    return result;
}

}  // namespace

TEST(SlimBinary, IsSmallerAndComputesTheSame)
{
    const auto program = built();
    if (!program)
        GTEST_SKIP() << "no device of Intel's driver for CPUs";
    const auto slim = detail::slim_binary(program->binary);
    ASSERT_TRUE(slim);
    EXPECT_LT(slim->size(), program->binary.size());
    const auto expected = results(*program, program->binary);
    EXPECT_EQ(expected[0], 14);
    EXPECT_EQ(results(*program, *slim), expected);
    if (const auto again = detail::slim_binary(*slim))
        EXPECT_EQ(results(*program, *again), expected);
}

TEST(SlimBinary, OtherThingsAreLeftAlone)
{
    EXPECT_FALSE(detail::slim_binary({}));
    EXPECT_FALSE(detail::slim_binary(Bytes(1000, 0x7f)));
    const std::string text = "BC\xc0\xde and more that is no bitcode";
    EXPECT_FALSE(detail::slim_binary(Bytes(text.begin(), text.end())));
}

// Whatever is wrong is noticed or kept within the binary: nothing is read or written outside of it.
TEST(SlimBinary, DamagedOnesDoNoHarm)
{
    const auto program = built();
    if (!program)
        GTEST_SKIP() << "no device of Intel's driver for CPUs";
    std::mt19937 random(1);
    const auto below = [&](std::size_t count) { return random() % count; };
    for (int round = 0; round < 3000; ++round) {
        Bytes damaged = program->binary;
        for (std::size_t count = 1 + below(4); count > 0; --count)
            damaged[below(round % 2 ? damaged.size() : 2048)] = static_cast<unsigned char>(random());
        if (round % 5 == 0)
            damaged.resize(below(damaged.size()));
        const auto slim = detail::slim_binary(damaged);
        EXPECT_TRUE(!slim || slim->size() < damaged.size());
    }
}
