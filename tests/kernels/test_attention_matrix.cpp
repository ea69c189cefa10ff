// Attention of 16-bit floats by matrix engines, each by its emulation.
#include <gtest/gtest.h>

#include "kernels/attention/gpu_matrix.hpp"
#include "kernels/attention_problems.hpp"
#include "kernels/matrix_engine_test.hpp"

namespace clprim {
namespace {

using namespace test;

// By every matrix engine, each by its emulation; what the cases above take, where they are of 16 bits, is that of mma.
class AttentionMatrix : public MatrixEngineTest {
protected:
    Queue& queue = Context::get().queue();
    const Device& device = queue.device();

    // The sign of the scale goes to the queries.
    static void complete(Problem& p, const Case& c)
    {
        if (c.mask != Mask::none)
            p.attention.mask = p.mask.tensor.expand({c.batch, c.heads, c.queries, c.keys});
        p.attention.scale = c.causal ? 0.3 : -0.05;
    }
};

TEST_P(AttentionMatrix, MatchesTheDefinition)
{
    // Compiling takes most of the time: one case for each engine but one of each kind.
    const bool both = engine.engine == detail::MatrixEngine::dpas16;
    const bool longer = engine.engine != detail::MatrixEngine::wmma;
    // Values of more than 128 elements are computed in parts, odd ones are read one by one.
    for (const Case& c : {Case{1, 4, 2, 50, 77, 64, 64, true, 0, Mask::none, 0.3, DataType::float16},
                          Case{1, 2, 2, 40, 50, 128, 88, false, 0, Mask::added, 0, DataType::bfloat16, true},
                          Case{1, 4, 2, 70, 77, 256, 256, true, 0, Mask::none, 0.3, DataType::float16},
                          Case{1, 2, 2, 40, 50, 150, 137, false, 0, Mask::added, 0, DataType::float16}}) {
        if (!both && c.size <= 128 && longer != (c.size > 64))
            continue;
        if (c.size % 8 != 0 && !both && engine.engine != detail::MatrixEngine::mma)
            continue;
        Problem p(c);
        complete(p, c);
        if (const auto reason = detail::attention_gpu_matrix_rejects_by(engine, false, p.attention, device)) {
            const bool by_vectors = engine.engine == detail::MatrixEngine::wmma && c.size > 128;
            EXPECT_TRUE(by_vectors || device.local_memory < std::size_t{64} << 10 ||
                        (both && device.local_memory < std::size_t{128} << 10)) << *reason;   // what these GPUs have
            continue;
        }
        const Expected expected = reference(p);
        const Tensor y = p.blank(p.grad_y.tensor.shape);
        const Tensor logsumexp = p.empty({c.batch, c.heads, c.queries}, DataType::float32);
        detail::attention_gpu_matrix_by(engine, false, queue, p.attention, y, logsumexp);
        expect_near("y", p.read(y), expected.y, c.dtype == DataType::float16 ? 4e-3 : 3e-2);
        expect_near("logsumexp", p.read(logsumexp), expected.logsumexp, 1e-5);
    }
}

// Relative to the largest gradient: what 16 bits round in factors of sums over all lines.
void expect_gradient(const char* what, const Values& actual, Values expected, double tolerance)
{
    double largest = 0;
    for (const double x : expected)
        largest = std::max(largest, std::abs(x));
    Values relative = actual;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        relative.at(i) /= largest;
        expected[i] /= largest;
    }
    expect_near(what, relative, expected, tolerance);
}

TEST_P(AttentionMatrix, GradientsMatchTheDefinition)
{
    // One case for each engine, since compiling takes most of the time, but both sizes of heads of those that part the
    // work differently on longer ones.
    const bool both = engine.engine == detail::MatrixEngine::dpas16 || engine.engine == detail::MatrixEngine::wmma;
    const bool longer = engine.engine == detail::MatrixEngine::dpas8 || engine.engine == detail::MatrixEngine::mfma;
    for (const Case& c : {Case{1, 4, 2, 150, 77, 64, 64, true, -3, Mask::none, 0.3, DataType::float16},
                          Case{1, 2, 2, 40, 130, 128, 88, false, 0, Mask::added, 0, DataType::bfloat16, true},
                          Case{1, 2, 2, 40, 70, 75, 75, false, 0, Mask::added, 0, DataType::float16}}) {
        const bool odd = c.size % 8 != 0, by_mma = detail::is_mma(engine.engine);   // steps of its own
        if (odd != by_mma || (!both && !by_mma && longer != (c.size > 64)))
            continue;
        Problem p(c);
        complete(p, c);
        if (const auto reason = detail::attention_gpu_matrix_backward_rejects_by(engine, p.attention, device)) {
            EXPECT_LT(device.local_memory, std::size_t{128} << 10) << *reason;   // what Intel's GPUs have
            continue;
        }
        const Expected expected = reference(p);
        const Tensor y = p.blank(p.grad_y.tensor.shape);
        copy(queue, upload(queue, expected.y, y.shape), y);
        const Tensor logsumexp = upload(queue, expected.logsumexp, {c.batch, c.heads, c.queries});
        const AttentionGradients gradients{p.blank(p.q.tensor.shape), p.blank(p.k.tensor.shape),
                                           p.blank(p.v.tensor.shape)};
        detail::attention_gpu_matrix_backward_by(engine, queue, p.attention, {y, logsumexp, p.grad_y.tensor},
                                                 gradients);
        const double tolerance = c.dtype == DataType::float16 ? 1e-3 : 8e-3;
        expect_gradient("grad_q", p.read(gradients.query), expected.grad_q, tolerance);
        expect_gradient("grad_k", p.read(gradients.key), expected.grad_k, tolerance);
        expect_gradient("grad_v", p.read(gradients.value), expected.grad_v, tolerance);
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, AttentionMatrix, clprim::test::matrix_engines(), clprim::test::name_of_engine);

TEST(AttentionByMatrix, IsProbed)
{
    const Device& device = Context::get().queue().device();
    if (device.kind != DeviceKind::gpu || device.platform_name.find("Portable") != std::string::npos)
        GTEST_SKIP() << "for GPUs; PoCL's compiler takes minutes";
    EXPECT_TRUE(detail::try_attention_by(device, {detail::MatrixEngine::mma, true, true}, DataType::float16));
    EXPECT_TRUE(
        detail::try_attention_backward_by(device, {detail::MatrixEngine::mma, true, true}, DataType::float16));
    if (detail::matrix_engine(device, "").emulated) {
        EXPECT_FALSE(detail::try_attention_by(device, {detail::MatrixEngine::dpas16, false, true}, DataType::float16));
        EXPECT_FALSE(
            detail::try_attention_backward_by(device, {detail::MatrixEngine::dpas16, false, true}, DataType::float16));
    }
}

}  // namespace
}  // namespace clprim
