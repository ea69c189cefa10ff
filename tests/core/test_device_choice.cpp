#include <gtest/gtest.h>

#include <core/device_choice.hpp>

using clprim::detail::default_devices;
using Listed = std::vector<std::size_t>;

TEST(DeviceChoice, AProcessorUnderTwoDriversIsOneDevice)
{
    EXPECT_EQ(default_devices({{true, "Intel(R) OpenCL", ""}, {true, "Portable Computing Language", ""}}), Listed{0});
}

TEST(DeviceChoice, ProcessorsAreNotListedBesideGpus)
{
    EXPECT_EQ(default_devices({{false, "NVIDIA CUDA", "pci 1"}, {true, "Intel(R) OpenCL", ""}}), Listed{0});
    EXPECT_EQ(default_devices({{false, "rusticl", ""}, {true, "Intel(R) OpenCL", ""}, {true, "llvmpipe", ""}}),
              Listed{0});
}

TEST(DeviceChoice, AGpuUnderTwoDriversIsOneDevice)
{
    EXPECT_EQ(default_devices({{false, "AMD APP", "pci 3"}, {false, "rusticl", "pci 3"}, {false, "rusticl", "pci 4"}}),
              (Listed{0, 2}));
}

TEST(DeviceChoice, DevicesThatMayDifferAreKept)
{
    EXPECT_EQ(default_devices({{false, "NVIDIA CUDA", ""}, {false, "NVIDIA CUDA", ""}}), (Listed{0, 1}));
    EXPECT_EQ(default_devices({{false, "A", ""}, {false, "B", ""}}), (Listed{0, 1}));
    EXPECT_EQ(default_devices({{true, "A", ""}, {true, "A", ""}, {true, "B", ""}}), (Listed{0, 1}));   // sockets
    EXPECT_EQ(default_devices({{false, "A", "pci 1"}, {false, "A", "pci 1"}}), (Listed{0, 1}));        // tiles
    EXPECT_TRUE(default_devices({}).empty());
}
