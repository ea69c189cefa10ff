// Products by matrix engines: every engine's registers and slabs by emulation, and the device's own one where it has it.
#include <limits>

#include <core/matrix_engine.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

#include "gemm_matrices.hpp"

using namespace clprim;
using namespace clprim::testing_gemm;
using detail::MatrixEngine;

namespace {

struct Engine {
    std::string name;
    detail::MatrixEngineChoice choice;
    Rejection rejects(const GemmProblem& problem, const Device& device) const
    {
        return detail::gpu_matrix_rejects_by(choice, problem, device);
    }
    void run(Queue& q, const GemmProblem& problem, const detail::GemmTensors& tensors) const
    {
        detail::gpu_matrix_by(choice, false, q, problem, tensors);
    }
};

class GemmMatrix : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override
    {
        if (queue().device().kind != DeviceKind::gpu)
            GTEST_SKIP() << "for GPUs";
        one = {GetParam(), detail::matrix_engine(queue().device(), GetParam())};
    }
    Engine one;
};

constexpr DataType types[] = {DataType::float16, DataType::bfloat16};

}  // namespace

// Whole tiles, edges of all kinds, batches, k that is cut; numbers whose sums are exact, so that results must be equal.
TEST_P(GemmMatrix, EveryTransposition)
{
    for (const Case& c : {Case{2, 72, 80, 40}, Case{1, 13, 33, 17}, Case{1, 130, 70, 600}})
        for (const Order a : {Order::rows, Order::columns})
            for (const Order b : {Order::rows, Order::columns})
                check(one, c, a, b, Order::rows, DataType::float16, 1, c.m == 13);
}

INSTANTIATE_TEST_SUITE_P(Emulated, GemmMatrix,
                         testing::Values("emulated_mma", "emulated_dpas16", "emulated_dpas8", "emulated_wmma",
                                         "emulated_wmma12", "emulated_mfma"),
                         [](const auto& info) { return std::string(info.param); });
