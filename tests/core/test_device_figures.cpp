#include <gtest/gtest.h>

#include <clprim/clprim.hpp>
#include <core/device_figures.hpp>

#include <cstdlib>

using namespace clprim;

namespace {

// Read once per process: no other test here may need a device.
const int bad_figures = ::setenv("CLPRIM_DEVICE_FIGURES", "compute_units=many", 1);

std::string refusal(const std::string& text)
{
    Device device;
    device.compute_units = 3;
    try {
        detail::apply_device_figures(device, text);
    } catch (const InvalidArgument& error) {
        EXPECT_EQ(device.compute_units, 3u) << "a refused text changed the device";
        return error.what();
    }
    return "";
}

}  // namespace

TEST(DeviceFigures, ChangesOnlyWhatIsNamed)
{
    Device device;
    device.name = "A";
    device.sub_group_sizes = {8};
    detail::apply_device_figures(device, "vendor=NVIDIA Corporation,fp64=1,sub_group_sizes=,c_standard=CL1.2");
    EXPECT_EQ(device.vendor, "NVIDIA Corporation");
    EXPECT_EQ(device.name, "A");
    EXPECT_EQ(device.c_standard, "CL1.2");
    EXPECT_TRUE(device.fp64);
    EXPECT_FALSE(device.fp16);
    EXPECT_TRUE(device.sub_group_sizes.empty());
    EXPECT_EQ(device.compute_units, 1u);
    detail::apply_device_figures(device, "");
    EXPECT_EQ(device.name, "A");
}

TEST(DeviceFigures, RefusesWithWhatWasExpected)
{
    EXPECT_NE(refusal("compute_units=9,cores=7").find("no figure 'cores'; there are c_standard, compute_units"),
              std::string::npos);
    EXPECT_NE(refusal("compute_units=9,fp64=yes").find("fp64 takes 0 or 1, got 'yes'"), std::string::npos);
    EXPECT_NE(refusal("compute_units=-2").find("positive whole number, got '-2'"), std::string::npos);
    EXPECT_NE(refusal("compute_units=0").find("positive whole number, got '0'"), std::string::npos);
    EXPECT_NE(refusal("local_memory=64K").find("local_memory takes a positive whole number, got '64K'"),
              std::string::npos);
    EXPECT_NE(refusal("sub_group_sizes=16:x").find("sub_group_sizes takes a positive whole number, got 'x'"),
              std::string::npos);
    EXPECT_NE(refusal("compute_units=9,").find("got ''"), std::string::npos);
    EXPECT_NE(refusal("c_standard=3").find("CL1.2, CL2.0 or CL3.0"), std::string::npos);
}

// One error, which names the variable, rather than other devices than asked for.
TEST(DeviceFigures, BadFiguresLeaveNoDevice)
{
    ASSERT_EQ(bad_figures, 0);
    EXPECT_TRUE(devices().empty());
    try {
        device_at(0);
        FAIL() << "a device in spite of bad figures";
    } catch (const InvalidArgument& error) {
        EXPECT_STREQ(error.what(), "CLPRIM_DEVICE_FIGURES: compute_units takes a positive whole number, got 'many'");
    }
}
