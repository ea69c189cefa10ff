#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <clprim/gemm.hpp>
#include <clprim/sort.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

using namespace clprim;
namespace fs = std::filesystem;

namespace {

// All of it is read once per process, before the first test asks for it.
const fs::path folder = [] {
    const fs::path path = fs::temp_directory_path() / ("clprim-test-dry-run-" + std::to_string(::getpid()));
    fs::create_directories(path);
    ::setenv("CLPRIM_DRY_RUN", (path / "log").c_str(), 1);
    ::setenv("CLPRIM_DUMP_PROGRAMS", path.c_str(), 1);
    ::setenv("CLPRIM_DEVICE_KIND", "gpu", 1);
    ::setenv("CLPRIM_DEVICE_FIGURES", "vendor=AMD,compute_units=60,local_memory=65536,max_work_group_size=1024,"
                                      "sub_group_sizes=32:64,fp64=0,fp16=1,extensions=cl_khr_fp16:cl_khr_subgroups", 1);
    return path;
}();

struct RemoveFolder : testing::Environment {
    void TearDown() override { fs::remove_all(folder); }
};
const auto* const removal = testing::AddGlobalTestEnvironment(new RemoveFolder);

std::string read_file(const fs::path& path)
{
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// The log's lines since the last call.
std::vector<std::string> new_lines()
{
    static std::size_t seen = 0;
    const std::string all = read_file(folder / "log");
    std::istringstream rest(all.substr(seen));
    seen = all.size();
    std::vector<std::string> lines;
    for (std::string line; std::getline(rest, line);)
        lines.push_back(line);
    return lines;
}

}  // namespace

TEST(DryRun, TakesTheFigures)
{
    const Device& device = Context::get(0).device();
    EXPECT_EQ(device.vendor, "AMD");
    EXPECT_EQ(device.compute_units, 60u);
    EXPECT_EQ(device.local_memory, 65536u);
    EXPECT_EQ(device.max_work_group_size, 1024u);
    EXPECT_EQ(device.sub_group_sizes, (std::vector<std::size_t>{32, 64}));
    EXPECT_TRUE(device.fp16);
    EXPECT_FALSE(device.fp64);
    EXPECT_TRUE(device.has_extension("cl_khr_subgroups"));
    EXPECT_FALSE(device.has_extension("cl_khr_fp64"));
}

TEST(DryRun, LogsLaunchesAndLaunchesNothing)
{
    Context& context = Context::get(0);
    Queue& queue = context.queue();
    const Tensor x = context.empty({4}, DataType::int32, queue);
    const cl_int before = 7;
    queue.fill(*x.memory, 0, 4 * sizeof before, &before, sizeof before);
    const auto launches = kernel_launches();
    new_lines();
    // No compiler would take it.
    const Program& program = context.program_from_text("a test", "__kernel void set( { not OpenCL }", "-DOF=1");
    Kernel& kernel = program.kernel("set");
    EXPECT_EQ(kernel.max_work_group_size, 1024u);
    queue.launch(kernel, Range::groups({3, 2, 1}, {16, 4, 1}), x, LocalMemory{256}, cl_int(1), LocalMemory{64});
    queue.launch(kernel, Range::linear(100, 64), x, NoTensor{});
    const auto lines = new_lines();
    ASSERT_EQ(lines.size(), 2u);
    const std::string stem = lines[0].substr(0, lines[0].find(' '));
    EXPECT_EQ(stem.substr(0, 7), "a_test-");
    EXPECT_EQ(lines[0], stem + " set 48x8x1 16x4x1 320");
    EXPECT_EQ(lines[1], stem + " set 128x1x1 64x1x1 0");
    const std::string dumped = read_file(folder / (stem + ".cl"));
    EXPECT_NE(dumped.find("-DCLPRIM_FP16"), std::string::npos) << dumped;
    EXPECT_EQ(dumped.find("-DCLPRIM_FP64"), std::string::npos) << dumped;
    EXPECT_NE(dumped.find("\n__kernel void set( { not OpenCL }"), std::string::npos) << dumped;
    EXPECT_EQ(context.program_builds(), 0u);
    EXPECT_EQ(kernel_launches(), launches);
    cl_int after[4] = {};
    queue.read(*x.memory, 0, after, sizeof after);
    for (const cl_int value : after)
        EXPECT_EQ(value, 7);
}

TEST(DryRun, AsksForAWholeOperator)
{
    Context& context = Context::get(0);
    Queue& queue = context.queue();
    const Tensor a = context.empty({256, 64}, DataType::float32, queue);
    const Tensor b = context.empty({64, 128}, DataType::float32, queue);
    const Tensor c = context.empty({256, 128}, DataType::float32, queue);
    new_lines();
    gemm(queue, gemm_problem(a, b, c), a, b, c);
    const auto lines = new_lines();
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0].rfind("kernels_gemm_", 0), 0u) << lines[0];
    EXPECT_EQ(context.program_builds(), 0u);
}

TEST(DryRun, SixtyFourBitKeysAreSortedWithoutDoubles)
{
    Context& context = Context::get(0);
    Queue& queue = context.queue();
    for (const std::int64_t size : {100, 5000, 200000}) {
        const auto empty = [&] { return context.empty({size}, DataType::int64, queue); };
        sort(queue, empty(), 0, false, empty(), empty());
    }
    EXPECT_FALSE(new_lines().empty());
}
