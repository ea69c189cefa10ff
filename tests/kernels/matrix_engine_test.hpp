// Tests of kernels for matrix engines: one for each engine that a name (CLPRIM_MATRIX_ENGINE's) stands for.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <clprim/context.hpp>
#include <core/matrix_engine.hpp>

namespace clprim::test {

class MatrixEngineTest : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override
    {
        const Device& device = Context::get(0).queue(0).device();
        if (device.kind != DeviceKind::gpu)
            GTEST_SKIP() << "for GPUs";
        // Its compiler takes minutes for all of them.
        const bool portable = device.platform_name.find("Portable") != std::string::npos;
        if (portable && GetParam() != std::string("emulated_mma"))
            GTEST_SKIP() << "one engine is enough on PoCL";
        const bool own = GetParam() == std::string("own");
        engine = detail::matrix_engine(device, own ? "" : GetParam());
        if (own && engine.emulated)
            GTEST_SKIP() << "this device has no matrix engine that is known";
    }
    detail::MatrixEngineChoice engine;
};

// The device's own, and all by emulation.
inline auto matrix_engines()
{
    return testing::Values("own", "emulated_mma", "emulated_mma75", "emulated_dpas16", "emulated_dpas8",
                           "emulated_wmma", "emulated_wmma12", "emulated_mfma");
}
inline std::string name_of_engine(const testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace clprim::test
