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
        engine = detail::matrix_engine(device, GetParam());
    }
    detail::MatrixEngineChoice engine;
};

}  // namespace clprim::test
