// Linear attention against the recurrence in double.
#include <cmath>
#include <random>

#include <clprim/linear_attention.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace clprim {
namespace {

struct Case {
    bool decay_per_row, decay, beta, shared_beta;
    std::int64_t heads, kv_heads;
};

class LinearAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(LinearAttentionTest, MatchesTheRecurrence)
{
    const Case c = GetParam();
    constexpr std::int64_t batch = 2, steps = 5, dk = 3, dv = 19;
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    const auto numbers = [&](std::int64_t count) {
        std::vector<double> values(static_cast<std::size_t>(count));
        for (double& v : values)
            v = static_cast<float>(uniform(random));
        return values;
    };
    const std::int64_t decays = c.kv_heads * (c.decay_per_row ? dk : 1), betas = c.shared_beta ? 1 : c.kv_heads;
    const auto q = numbers(batch * steps * c.heads * dk), k = numbers(batch * steps * c.kv_heads * dk),
               v = numbers(batch * steps * c.kv_heads * dv), g = numbers(batch * steps * decays),
               b = numbers(batch * steps * betas);
    std::vector<double> state = numbers(batch * c.kv_heads * dk * dv);

    Queue& queue = Context::get().queue();
    LinearAttention problem;
    problem.heads = c.heads;
    problem.kv_heads = c.kv_heads;
    problem.scale = 0.7;
    problem.query = test::upload(queue, q, {batch, steps, c.heads * dk});
    problem.key = test::upload(queue, k, {batch, steps, c.kv_heads * dk});
    problem.value = test::upload(queue, v, {batch, steps, c.kv_heads * dv});
    if (c.decay)
        problem.decay = test::upload(queue, g, {batch, steps, decays});
    if (c.beta)
        problem.beta = test::upload(queue, b, {batch, steps, betas});
    problem.state = test::upload(queue, state, {batch, c.kv_heads, dk, dv});
    problem.y = queue.context().empty({batch, steps, c.heads * dv}, DataType::float32, queue);
    linear_attention(queue, problem);
    const std::vector<double> y = test::download(queue, problem.y), last = test::download(queue, problem.state);

    for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t h = 0; h < c.kv_heads; ++h) {
            double* s = &state[static_cast<std::size_t>((n * c.kv_heads + h) * dk * dv)];
            for (std::int64_t t = 0; t < steps; ++t) {
                const std::int64_t step = n * steps + t;
                const auto key = [&](std::int64_t d) {
                    return k[static_cast<std::size_t>((step * c.kv_heads + h) * dk + d)];
                };
                for (std::int64_t d = 0; d < dk && c.decay; ++d)
                    for (std::int64_t m = 0; m < dv; ++m)
                        s[d * dv + m] *= std::exp(g[static_cast<std::size_t>(
                            step * decays + (c.decay_per_row ? h * dk + d : h))]);
                for (std::int64_t m = 0; m < dv; ++m) {
                    double value = v[static_cast<std::size_t>((step * c.kv_heads + h) * dv + m)];
                    if (c.beta) {
                        for (std::int64_t d = 0; d < dk; ++d)
                            value -= s[d * dv + m] * key(d);
                        value *= b[static_cast<std::size_t>(step * betas + (c.shared_beta ? 0 : h))];
                    }
                    for (std::int64_t d = 0; d < dk; ++d)
                        s[d * dv + m] += key(d) * value;
                    const std::int64_t group = c.heads / c.kv_heads;
                    for (std::int64_t head = h * group; head < (h + 1) * group; ++head) {
                        double sum = 0;
                        for (std::int64_t d = 0; d < dk; ++d)
                            sum += q[static_cast<std::size_t>((step * c.heads + head) * dk + d)] * s[d * dv + m];
                        EXPECT_NEAR(y[static_cast<std::size_t>((step * c.heads + head) * dv + m)], 0.7 * sum,
                                    1e-4 * std::abs(sum) + 1e-4);
                    }
                }
            }
        }
    for (std::size_t i = 0; i < state.size(); ++i)
        EXPECT_NEAR(last[i], state[i], 1e-4 * std::abs(state[i]) + 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Rules, LinearAttentionTest,
                         testing::Values(Case{false, false, false, false, 2, 2}, Case{false, true, false, false, 4, 2},
                                         Case{true, true, false, false, 2, 1}, Case{false, false, true, true, 2, 2},
                                         Case{true, true, true, false, 4, 2}));

TEST(LinearAttentionErrors, ShapesMustFit)
{
    Queue& queue = Context::get().queue();
    const auto make = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    LinearAttention problem{make({1, 2, 4}),    make({1, 2, 4}), make({1, 2, 4}), {}, {},
                            make({1, 1, 4, 4}), make({1, 2, 4})};
    EXPECT_NO_THROW(linear_attention(queue, problem));
    problem.key = make({1, 2, 3});
    EXPECT_THROW(linear_attention(queue, problem), InvalidArgument);
    problem.key = make({1, 2, 4});
    problem.kv_heads = 3;
    EXPECT_THROW(linear_attention(queue, problem), InvalidArgument);
}

}  // namespace
}  // namespace clprim
