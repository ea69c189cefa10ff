// Softmax and log-softmax, forward and backward, against the formula in double.
#include <cmath>
#include <random>

#include <clprim/softmax.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;

struct Case {
    std::int64_t outer, n, inner;
    bool log;
};

class SoftmaxTest : public testing::TestWithParam<Case> {};

TEST_P(SoftmaxTest, ForwardAndBackwardMatchTheFormula)
{
    const auto [outer, n, inner, log] = GetParam();
    Queue& queue = Context::get().queue();
    std::mt19937 random(1);
    std::normal_distribution<double> normal(0, 4);
    std::vector<double> x(outer * n * inner), dy(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = float(normal(random));
        dy[i] = float(normal(random));
    }
    const Dims shape{outer, n, inner};
    const Tensor tx = test::upload(queue, x, shape), ty = test::upload(queue, x, shape);
    const Tensor tdy = test::upload(queue, dy, shape), tdx = test::upload(queue, x, shape);
    softmax(queue, tx, ty, 1, log);
    softmax_backward(queue, {tdy, ty, tdx, -2, log});
    const auto y = test::download(queue, ty), dx = test::download(queue, tdx);
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t s = 0; s < inner; ++s) {
            const auto at = [&, n = n, inner = inner](std::int64_t k) { return (o * n + k) * inner + s; };
            double sum = 0, dot = 0;
            for (std::int64_t k = 0; k < n; ++k)
                sum += std::exp(x[at(k)]);
            for (std::int64_t k = 0; k < n; ++k)
                dot += dy[at(k)] * (log ? 1 : std::exp(x[at(k)]) / sum);
            for (std::int64_t k = 0; k < n; ++k) {
                const double p = std::exp(x[at(k)]) / sum;
                ASSERT_NEAR(y[at(k)], log ? std::log(p) : p, 1e-6 + 1e-6 * std::abs(std::log(p)));
                ASSERT_NEAR(dx[at(k)], log ? dy[at(k)] - p * dot : (dy[at(k)] - dot) * p, 2e-5);
            }
        }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SoftmaxTest,
                         testing::Values(Case{4, 10, 1, false}, Case{70, 100, 1, true}, Case{3, 1000, 1, false},
                                         Case{2, 5, 37, false}, Case{2, 19, 64, true}, Case{1, 1, 1, false},
                                         Case{3, 16, 1, true}, Case{2, 40, 3, false},
                                         // Columns that work-items share, and few rows cut into parts, on GPUs.
                                         Case{2, 150, 20, false}, Case{1, 150, 36, true}, Case{3, 9, 130, true},
                                         Case{1, 700, 7, false}, Case{1, 10001, 1, false}, Case{1, 40000, 1, false},
                                         Case{2, 34000, 1, false}));

}  // namespace
