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

// Whole tiles, edges of all kinds and a rest of k, element by element and in groups of eight, a k that is cut; numbers
// whose sums are exact, so that results must be equal.
TEST_P(GemmMatrix, EveryTransposition)
{
    check(one, {1, 70, 83, 37}, Order::rows, Order::columns, Order::rows, DataType::float16, 1, 0);
    check(one, {1, 70, 83, 37}, Order::columns, Order::spread, Order::rows, DataType::bfloat16, 1, 0);
    for (const Order a : {Order::rows_of_fours, Order::columns_of_fours})
        for (const Order b : {Order::rows_of_fours, Order::columns_of_fours})
            check(one, {2, 72, 72, 40}, a, b, Order::rows_of_fours, a == b ? DataType::bfloat16 : DataType::float16,
                  1, 0);
    check(one, {1, 40, 24, 600}, Order::rows_of_fours, Order::columns_of_fours, Order::rows, DataType::float16, 2, 1);
    if (one.choice.engine == MatrixEngine::mma)
        check(one, {1, 20, 70, 40}, Order::spread, Order::rows, Order::columns, DataType::bfloat16, -3, 2);
}

INSTANTIATE_TEST_SUITE_P(Emulated, GemmMatrix,
                         testing::Values("emulated_mma", "emulated_dpas16", "emulated_dpas8", "emulated_wmma",
                                         "emulated_wmma12", "emulated_mfma"),
                         [](const auto& info) { return std::string(info.param); });
