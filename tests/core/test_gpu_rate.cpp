// How results are cut for GPUs by rates that follow from what a driver says of its device.
#include <gtest/gtest.h>

#include <core/gpu_rate.hpp>

using namespace clprim;
using namespace clprim::detail;

namespace {

Device arc(unsigned engines, std::vector<std::size_t> sub_groups)
{
    Device device;
    device.kind = DeviceKind::gpu;
    device.vendor = "Intel(R) Corporation";
    device.compute_units = engines;
    device.sub_group_sizes = std::move(sub_groups);
    device.extensions = {"cl_intel_required_subgroup_size", "cl_intel_subgroup_matrix_multiply_accumulate"};
    return device;
}

}  // namespace

// Intel's drivers count vector engines: 160 of an Arc B580 with 20 cores, 512 of an A770 with 32.
TEST(GpuRate, CoresAndEngines)
{
    const GpuRate battlemage = gpu_rate(arc(160, {16, 32})), alchemist = gpu_rate(arc(512, {8, 16, 32}));
    EXPECT_EQ(battlemage.cores, 20);
    EXPECT_EQ(battlemage.engines, 160);
    EXPECT_EQ(alchemist.cores, 32);
    EXPECT_EQ(alchemist.engines, 512);
    Device other;
    other.kind = DeviceKind::gpu;
    other.vendor = "NVIDIA Corporation";
    other.compute_units = 46;
    EXPECT_EQ(gpu_rate(other).cores, 46);
    EXPECT_EQ(gpu_rate(other).engines, 4 * 46);
}

// What fills the device is left whole; long sums of few blocks are cut; nothing is where a launch more costs more than
// it saves.
TEST(GpuRate, Parts)
{
    const GpuRate rate = gpu_rate(arc(160, {16, 32}));
    const double engines = 16;   // ten groups fill it
    EXPECT_EQ(best_parts(rate, {40, engines, 1e5}, 1e6, 64, false).count, 1);
    EXPECT_EQ(best_parts(rate, {1, engines, 4000}, 1e4, 64, false).count, 1);
    const Parts many = best_parts(rate, {1, engines, 1e6}, 1e4, 64, false);
    EXPECT_GE(many.count, 8);
    EXPECT_LT(many.clocks, launch_clocks(rate, {1, engines, 1e6}) / 5);
    EXPECT_LT(best_parts(rate, {1, engines, 1e6}, 1e7, 64, false).count, many.count) << "parts are moved as well";
    EXPECT_EQ(best_parts(rate, {1, engines, 1e6}, 1e4, 3, false).count, 3);
    EXPECT_EQ(best_parts(rate, {1, engines, 1e6}, 1e4, 0, true).count, 1);
}

// A group that waits by itself leaves its core to others, as many as have room there.
TEST(GpuRate, WaitingGroups)
{
    const GpuRate rate{10, 40, 32, 32, 1};
    Workload work{10, 4, 1e5, 2};
    work.waits = 5e4;
    const double alone = launch_clocks(rate, work), around = alone - 1.5e5;
    EXPECT_GE(around, 0);
    EXPECT_LT(around, 5e3);
    work.groups = 20;
    EXPECT_DOUBLE_EQ(launch_clocks(rate, work), 2 * (1e5 + around));
    work.resident = 1;
    EXPECT_DOUBLE_EQ(launch_clocks(rate, work), 2 * alone);
    work.groups = 1;
    EXPECT_DOUBLE_EQ(launch_clocks(rate, work), alone);
}
