// Every implementation of every pass on every problem of conv_problems.hpp, against the definition in double.
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

#include <core/choose.hpp>
#include <kernels/conv/problem.hpp>

#include "kernels/conv_problems.hpp"
#include "kernels/conv_reference.hpp"
#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::ConvCase;
using test::Host;
using test::Layout;
using test::products;
using test::Sides;

class Conv : public testing::TestWithParam<std::tuple<ConvCase, Layout, Layout>> {
protected:
    Queue& queue = Context::get().queue();
    std::mt19937 random{7};

    Tensor upload(const Host& host) { return test::upload(queue, host.values, host.shape, host.strides); }

    // The inputs are eighths of small integers, so sums are exact in float32 whatever their order.
    void compare(const Tensor& result, const Host& expected, std::string_view name)
    {
        const std::vector<double> got = test::download(queue, result);
        for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i], expected.values[i]) << name << " at " << i << " of " << to_string(expected.shape);
    }

    template <class Run>
    void each_implementation(ConvPass pass, const ConvOptions& options, const Run& run)
    {
        int ran = 0;
        for (const std::string_view name : conv_implementations(pass)) {
            ConvOptions chosen = options;
            chosen.implementation = name;
            try {
                run(chosen);
                ++ran;
            } catch (const NotSupported&) {
                EXPECT_NE(name, "reference");
            }
        }
        EXPECT_GE(ran, 1);
    }
};

TEST_P(Conv, MatchesTheDefinition)
{
    const auto& [problem, layout, weight_layout] = GetParam();
    const Dims y_shape = conv_output_shape(problem.x, problem.w, problem.options);
    const bool swap = problem.options.transposed;
    Host x(problem.x, layout, &random), w(problem.w, weight_layout, &random), y(y_shape, layout, &random);
    Host bias({y_shape[1]}, Layout::contiguous, &random);
    const Tensor tx = upload(x), tw = upload(w), ty = upload(y), tbias = upload(bias);

    Host forward(y_shape, layout, nullptr), dx(problem.x, layout, nullptr), dw(problem.w, weight_layout, nullptr);
    const Sides sides = swap ? Sides{&y, &w, &x} : Sides{&x, &w, &y};
    products(sides, problem.options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
        if (swap)
            std::swap(xi, yi);
        forward.values[yi] += x.values[xi] * w.values[wi];
        dx.values[xi] += y.values[yi] * w.values[wi];
        dw.values[wi] += x.values[xi] * y.values[yi];
    });
    Host with_bias = forward, accumulated = forward;
    for (std::int64_t i = 0; i < y_shape.product(); ++i) {   // memory index to channel
        const std::int64_t channel = i / y.strides[1] % y_shape[1];
        with_bias.values[i] = std::max(0.0, forward.values[i] + bias.values[channel]);
        accumulated.values[i] = std::max(0.0, y.values[i] + forward.values[i] + bias.values[channel]);
    }

    const Host nan_y = [&] { Host h = y; std::fill(h.values.begin(), h.values.end(), NAN); return h; }();
    const Host nan_x = [&] { Host h = x; std::fill(h.values.begin(), h.values.end(), NAN); return h; }();
    const Host nan_w = [&] { Host h = w; std::fill(h.values.begin(), h.values.end(), NAN); return h; }();
    const ConvPass forward_pass = swap ? ConvPass::backward_data : ConvPass::forward;
    const ConvPass data_pass = swap ? ConvPass::forward : ConvPass::backward_data;
    each_implementation(forward_pass, problem.options, [&](ConvOptions options) {
        const Tensor result = upload(nan_y);
        conv_forward(queue, tx, tw, Tensor(), result, options);
        compare(result, forward, options.implementation + " forward");
        options.activation = Activation::relu;
        conv_forward(queue, tx, tw, tbias, result, options);
        compare(result, with_bias, options.implementation + " forward with bias and relu");
        options.accumulate = true;
        const Tensor sum = upload(y);
        conv_forward(queue, tx, tw, tbias, sum, options);
        compare(sum, accumulated, options.implementation + " forward added to the result");
        Prepared prepared;                       // the second time with what the first has kept
        options.prepared = &prepared;
        options.accumulate = false;
        for (int time = 0; time < 2; ++time) {
            conv_forward(queue, tx, tw, tbias, result, options);
            compare(result, with_bias, options.implementation + " forward of prepared weights");
        }
    });
    each_implementation(data_pass, problem.options, [&](const ConvOptions& options) {
        const Tensor result = upload(nan_x);
        conv_backward_data(queue, ty, tw, result, options);
        compare(result, dx, options.implementation + " backward_data");
    });
    each_implementation(ConvPass::backward_weight, problem.options, [&](const ConvOptions& options) {
        const Tensor result = upload(nan_w);
        conv_backward_weight(queue, tx, ty, result, options);
        compare(result, dw, options.implementation + " backward_weight");
    });
}

INSTANTIATE_TEST_SUITE_P(Problems, Conv,
                         testing::Combine(testing::ValuesIn(test::conv_cases()),
                                          testing::Values(Layout::contiguous, Layout::channels_last),
                                          testing::Values(Layout::contiguous, Layout::channels_last)),
                         [](const auto& info) {
                             const auto name = [](Layout l) {
                                 return l == Layout::contiguous ? "contiguous" : "channels_last";
                             };
                             return std::get<0>(info.param).name + "_" + name(std::get<1>(info.param)) + "_weights_" +
                                    name(std::get<2>(info.param));
                         });

// Infinities, NaN and what neighbours added together overflow to reach the outputs that they belong to, as what they
// make of sums there.
TEST(ConvNotFinite, ReachesWhatReadsIt)
{
    Queue& queue = Context::get().queue();
    const float most = 3e38f;
    std::mt19937 random{9};
    for (const Layout layout : {Layout::contiguous, Layout::channels_last})
        for (const double number : {double(INFINITY), -double(INFINITY), double(NAN), double(most)}) {
            const ConvOptions options = test::conv({1, 1}, {1, 1});
            Host x({2, 3, 9, 8}, layout, &random), w({4, 3, 3, 3}, Layout::contiguous, &random);
            std::fill(w.values.begin(), w.values.end(), 0.125);
            for (const auto& [n, c, row, column] : {std::array{0, 1, 3, 3}, {0, 1, 8, 7}, {1, 2, 4, 6}, {1, 2, 4, 7}}) {
                const auto at = n * x.strides[0] + c * x.strides[1] + row * x.strides[2] + column * x.strides[3];
                x.values[static_cast<std::size_t>(at)] = row == 8 ? -number : number;
            }
            Host y({2, 4, 9, 8}, layout, nullptr);
            products(Sides{&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
                y.values[yi] += x.values[xi] * w.values[wi];
            });
            const Tensor tx = test::upload(queue, x.values, x.shape, x.strides);
            const Tensor tw = test::upload(queue, w.values, w.shape, w.strides);
            for (const std::string_view name : conv_implementations(ConvPass::forward)) {
                ConvOptions chosen = options;
                chosen.implementation = name;
                const Tensor result = test::upload(queue, y.values, y.shape, y.strides);
                try {
                    conv_forward(queue, tx, tw, Tensor(), result, chosen);
                } catch (const NotSupported&) {
                    EXPECT_NE(name, "reference");
                    continue;
                }
                const std::vector<double> got = test::download(queue, result);
                for (std::size_t i = 0; i < got.size(); ++i)
                    if (std::isnan(y.values[i]))
                        ASSERT_TRUE(std::isnan(got[i])) << name << " of " << number << " at " << i;
                    else if (std::abs(y.values[i]) < 1e30 || std::isinf(y.values[i]))
                        ASSERT_EQ(got[i], y.values[i]) << name << " of " << number << " at " << i;
                    else   // eighths are lost beside it
                        ASSERT_NEAR(got[i] / y.values[i], 1, 1.3e-6) << name << " of " << number << " at " << i;
            }
            Host dy({2, 4, 9, 8}, layout, nullptr), dw({4, 3, 3, 3}, Layout::contiguous, nullptr);
            std::fill(dy.values.begin(), dy.values.end(), 0.125);
            products(Sides{&x, &w, &dy}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
                dw.values[wi] += x.values[xi] * dy.values[yi];
            });
            const Tensor ty = test::upload(queue, dy.values, dy.shape, dy.strides);
            for (const std::string_view name : {"gpu_winograd", "gpu_implicit", "reference"}) {
                ConvOptions chosen = options;
                chosen.implementation = name;
                const Tensor result = test::upload(queue, w.values, w.shape, w.strides);
                try {
                    conv_backward_weight(queue, tx, ty, result, chosen);
                } catch (const NotSupported&) {
                    EXPECT_NE(name, "reference");
                    continue;
                }
                const std::vector<double> got = test::download(queue, result);
                for (std::size_t i = 0; i < got.size(); ++i)
                    if (std::isnan(dw.values[i]))
                        ASSERT_TRUE(std::isnan(got[i])) << name << " of " << number << ", weight " << i;
                    else if (number == most)   // taps that do not see it at an edge are sums of transforms that do
                        ASSERT_NEAR(got[i] / number, dw.values[i] / number, 1e-6) << name << ", weight " << i;
                    else
                        ASSERT_EQ(got[i], dw.values[i]) << name << " of " << number << ", weight " << i;
            }
        }
}

// Each activation on the result of each implementation that takes the problem, both layouts, against its formula.
TEST(ConvActivation, MatchesItsFormula)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random{11};
    const float alpha = 0.2f, beta = 0.5f;
    const auto bounded = [](double v, double low, double high) { return std::min(std::max(v, low), high); };
    const std::map<Activation, std::function<double(double)>> formulas{
        {Activation::relu, [&](double v) { return std::max(v, 0.0); }},
        {Activation::clip, [&](double v) { return bounded(v, alpha, beta); }},
        {Activation::leaky_relu, [&](double v) { return v < 0 ? alpha * v : v; }},
        {Activation::silu, [&](double v) { return v / (1 + std::exp(-v)); }},
        {Activation::hard_swish, [&](double v) { return v * bounded(v + 3, 0, 6) / 6; }},
        {Activation::hard_sigmoid, [&](double v) { return bounded(alpha * v + beta, 0, 1); }},
        {Activation::sigmoid, [&](double v) { return 1 / (1 + std::exp(-v)); }},
        {Activation::gelu, [](double v) { return v / 2 * std::erfc(-v / std::numbers::sqrt2); }},
        {Activation::gelu_tanh,
         [](double v) {
             return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
         }},
    };
    for (const Layout layout : {Layout::contiguous, Layout::channels_last})
        for (const std::int64_t groups : {1, 20}) {
            const Host x({2, 20, 6, 9}, layout, &random), w({20, 20 / groups, 3, 3}, Layout::contiguous, &random);
            Host y({2, 20, 6, 9}, layout, nullptr);
            const Tensor tx = test::upload(queue, x.values, x.shape, x.strides);
            const Tensor tw = test::upload(queue, w.values, w.shape, w.strides);
            ConvOptions options = test::conv({1, 1}, {1, 1}, {}, groups);
            options.alpha = alpha;
            options.beta = beta;
            for (const std::string_view name : conv_implementations(ConvPass::forward)) {
                options.implementation = name;
                const Tensor plain = test::upload(queue, y.values, y.shape, y.strides);
                options.activation = Activation::none;
                try {
                    conv_forward(queue, tx, tw, Tensor(), plain, options);
                } catch (const NotSupported&) {
                    EXPECT_NE(name, "reference");
                    continue;
                }
                const std::vector<double> before = test::download(queue, plain);
                for (const auto& [activation, formula] : formulas) {
                    const Tensor result = test::upload(queue, y.values, y.shape, y.strides);
                    options.activation = activation;
                    conv_forward(queue, tx, tw, Tensor(), result, options);
                    const std::vector<double> after = test::download(queue, result);
                    for (std::size_t i = 0; i < after.size(); ++i)
                        ASSERT_NEAR(after[i], formula(before[i]), 1e-6 * std::max(1.0, std::abs(before[i])))
                            << name << ", activation " << static_cast<int>(activation) << " of " << before[i];
                }
            }
        }
}

// What lies beyond a row of the result is no product, even where the source is infinite.
TEST(ConvWeightGradient, TakesNothingFromBeyondTheResult)
{
    Queue& queue = Context::get().queue();
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const ConvOptions options = test::conv({1, 1}, {1, 1}, {}, 4);
        Host x({1, 4, 5, 6}, layout, nullptr), w({4, 1, 3, 3}, Layout::contiguous, nullptr);
        Host dy({1, 4, 5, 6}, layout, nullptr);
        std::fill(dy.values.begin(), dy.values.end(), 1.0);
        for (std::int64_t c = 0; c < 4; ++c)   // the last pixel
            x.values[static_cast<std::size_t>(c * x.strides[1] + 4 * x.strides[2] + 5 * x.strides[3])] = INFINITY;
        products(Sides{&x, &w, &dy}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
            w.values[wi] += x.values[xi] * dy.values[yi];
        });
        ASSERT_EQ(w.values[0], 0);   // the first tap does not see it
        const Tensor tx = test::upload(queue, x.values, x.shape, x.strides);
        const Tensor tdy = test::upload(queue, dy.values, dy.shape, dy.strides);
        const Tensor result = queue.context().empty({4, 1, 3, 3}, DataType::float32, queue);
        for (const std::string_view name : conv_implementations(ConvPass::backward_weight)) {
            ConvOptions chosen = options;
            chosen.implementation = name;
            try {
                conv_backward_weight(queue, tx, tdy, result, chosen);
            } catch (const NotSupported&) {
                EXPECT_NE(name, "reference");
                continue;
            }
            EXPECT_EQ(test::download(queue, result), w.values) << name;
        }
    }
}

TEST(ConvBias, GradientIsTheSumOverAllButChannels)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random{3};
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
        const Host dy({3, 5, 6, 7}, layout, &random);
        std::vector<double> expected(5);
        for (std::size_t i = 0; i < dy.values.size(); ++i)
            expected[i / dy.strides[1] % 5] += dy.values[i];
        const Tensor result = queue.context().empty({5}, DataType::float32, queue);
        conv_backward_bias(queue, test::upload(queue, dy.values, dy.shape, dy.strides), result);
        EXPECT_EQ(test::download(queue, result), expected);
    }
}

// Weights are kept with what is derived from them for calls of any number of groups.
TEST(ConvPrepared, ServesEveryGroupingOfItsWeights)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random{5};
    Host w({8, 4, 3, 3}, Layout::contiguous, &random);
    const auto upload = [&](const Host& host) { return test::upload(queue, host.values, host.shape, host.strides); };
    const Tensor tw = upload(w);
    for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_data})
        for (const std::string_view name : conv_implementations(pass)) {
            const bool forward = pass == ConvPass::forward;
            Prepared prepared;
            for (const std::int64_t groups : {1, 2, 4}) {
                Host x({2, 4 * groups, 6, 7}, Layout::contiguous, forward ? &random : nullptr);
                Host y({2, 8, 6, 7}, Layout::contiguous, forward ? nullptr : &random);
                ConvOptions options = test::conv({1, 1}, {1, 1}, {}, groups);
                options.implementation = name;
                options.prepared = &prepared;
                const Tensor tx = upload(x), ty = upload(y);
                try {
                    if (forward)
                        conv_forward(queue, tx, tw, Tensor(), ty, options);
                    else
                        conv_backward_data(queue, ty, tw, tx, options);
                } catch (const NotSupported&) {
                    EXPECT_NE(name, "reference");
                    continue;
                }
                products(Sides{&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
                    (forward ? y.values[yi] : x.values[xi]) += (forward ? x.values[xi] : y.values[yi]) * w.values[wi];
                });
                EXPECT_EQ(test::download(queue, forward ? ty : tx), forward ? y.values : x.values)
                    << name << ", groups " << groups;
            }
        }
}

TEST(ConvErrors, AreFoundBeforeAnythingRuns)
{
    Queue& queue = Context::get().queue();
    const auto tensor = [&](const Dims& shape) { return queue.context().empty(shape, DataType::float32, queue); };
    const Tensor none;
    EXPECT_THROW(conv_forward(queue, tensor({1, 3, 4, 4}), tensor({2, 4, 3, 3}), none, tensor({1, 2, 2, 2}), {}),
                 InvalidArgument);
    EXPECT_THROW(conv_forward(queue, tensor({1, 3, 4, 4}), tensor({2, 3, 3, 3}), none, tensor({1, 2, 3, 2}), {}),
                 InvalidArgument);
    EXPECT_THROW(conv_forward(queue, tensor({1, 3, 4, 4}), tensor({2, 3, 3, 3}), tensor({3}), tensor({1, 2, 2, 2}), {}),
                 InvalidArgument);
    ConvOptions unknown;
    unknown.implementation = "no such thing";
    EXPECT_THROW(
        conv_forward(queue, tensor({1, 3, 4, 4}), tensor({2, 3, 3, 3}), none, tensor({1, 2, 2, 2}), unknown),
        NotSupported);
}

}  // namespace
