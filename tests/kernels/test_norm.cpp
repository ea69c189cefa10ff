// Batch norm against the formula in double, over layouts, dtypes and sizes that reach every path.
#include <cmath>
#include <random>
#include <vector>

#include <clprim/norm.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;
using test::download;
using test::upload;

struct Case {
    std::int64_t n, c, s;
    bool channels_last;
    double mean = 3, first = 0;   // first: value put in place of the first element (an outlier)
};

class BatchNormTest : public testing::TestWithParam<Case> {};

TEST_P(BatchNormTest, ForwardAndBackwardMatchTheFormula)
{
    const auto [n, c, s, channels_last, offset, first] = GetParam();
    Queue& queue = Context::get().queue();
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    const auto make = [&](std::size_t count, double shift) {
        std::vector<double> v(count);
        for (double& e : v)
            e = float(normal(random) + shift);
        return v;
    };
    auto x = make(n * c * s, offset), dy = make(n * c * s, 0), w = make(c, 1), b = make(c, 0);
    if (first != 0)
        std::fill(x.begin(), x.begin() + (channels_last ? c : 1), first);
    const Dims shape{n, c, s}, strides = channels_last ? Dims{c * s, 1, c} : contiguous_strides(shape);
    const auto at = [&](auto i, auto j, auto k) { return i * strides[0] + j * strides[1] + k * strides[2]; };

    const Tensor tx = upload(queue, x, shape, strides), tdy = upload(queue, dy, shape, strides);
    const Tensor ty = upload(queue, x, shape, strides), tdx = upload(queue, x, shape, strides);
    const Tensor tw = upload(queue, w, {c}), tb = upload(queue, b, {c});
    const std::vector<double> zeros(c, 0), ones(c, 1);
    const Tensor rm = upload(queue, zeros, {c}), rv = upload(queue, ones, {c});
    const Tensor save_mean = upload(queue, zeros, {c}), save_invstd = upload(queue, zeros, {c});
    const Tensor dw = upload(queue, zeros, {c}), db = upload(queue, zeros, {c});
    batch_norm(queue, {tx, ty, tw, tb, rm, rv, save_mean, save_invstd, true, 0.1, 1e-5});
    batch_norm_backward(queue, {tdy, tx, tw, save_mean, save_invstd, tdx, dw, db, true, 1e-5});
    const auto y = download(queue, ty), dx = download(queue, tdx), got_rm = download(queue, rm),
               got_rv = download(queue, rv), got_dw = download(queue, dw), got_db = download(queue, db);

    const double count = double(n) * s;
    for (std::int64_t j = 0; j < c; ++j) {
        double mean = 0, m2 = 0, sum = 0, dot = 0;
        const auto each = [&, n = n, s = s](auto f) {
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t k = 0; k < s; ++k)
                    f(at(i, j, k));
        };
        each([&](auto i) { mean += x[i] / count; });
        each([&](auto i) { m2 += (x[i] - mean) * (x[i] - mean); sum += dy[i]; dot += dy[i] * (x[i] - mean); });
        const double invstd = 1 / std::sqrt(m2 / count + 1e-5);
        EXPECT_NEAR(got_rm[j], 0.1 * mean, 1e-5 + 1e-6 * std::abs(mean));
        EXPECT_NEAR(got_rv[j], 0.9 + 0.1 * m2 / (count - 1), 1e-5 + 2e-6 * m2 / count);
        EXPECT_NEAR(got_db[j], sum, 1e-4 + 1e-5 * std::abs(sum));
        // The saved mean is rounded to float32, which shifts dot by sum times that rounding.
        EXPECT_NEAR(got_dw[j], dot * invstd, 1e-4 + 1e-5 * std::abs(dot * invstd) + 1e-7 * offset * std::abs(sum));
        double worst = 0, worst_dx = 0;
        each([&](auto i) {
            worst = std::max(worst, std::abs(y[i] - ((x[i] - mean) * invstd * w[j] + b[j])) / (1 + std::abs(y[i])));
            const double expected =
                w[j] * invstd * (dy[i] - sum / count - (x[i] - mean) * invstd * invstd * dot / count);
            worst_dx = std::max(worst_dx, std::abs(dx[i] - expected) / (1 + w[j] * w[j] * invstd));
        });
        ASSERT_LT(worst, offset > 100 ? 1e-3 : 1e-5);
        ASSERT_LT(worst_dx, offset > 100 ? 1e-3 : 1e-5);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNormTest,
                         testing::Values(Case{4, 5, 49, false}, Case{4, 64, 49, true}, Case{3, 17, 1, false},
                                         Case{2, 3, 20000, false}, Case{2, 3, 20000, true}, Case{1, 1, 40000, false},
                                         Case{64, 33, 20, true}, Case{2, 9, 1000, false, 1000},
                                         Case{2, 32, 1000, true, 1000}, Case{2, 3, 5000, false, 0, 1e4},
                                         Case{2, 32, 5000, true, 0, 1e4}, Case{2, 8, 16, false},
                                         Case{8, 3, 1369, false}, Case{4, 5, 1367, false}, Case{5, 1, 1369, false}));

TEST(BatchNorm, FoldedIntoWeightsMatchesTheFormula)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random(2);
    std::uniform_real_distribution<double> uniform(0.5, 2);
    const auto make = [&](std::size_t count) {
        std::vector<double> v(count);
        for (double& e : v)
            e = float(uniform(random));
        return v;
    };
    const std::int64_t c = 5;
    for (const Dims& shape : {Dims{c, 3, 3, 3}, Dims{c, 40}, Dims{c}, Dims{c, 0, 3}}) {
        const std::int64_t row = shape.product() / c;
        const auto weight = make(shape.product()), gamma = make(c), beta = make(c), mean = make(c),
                   variance = make(c), bias = make(c);
        const auto vector = [&](const std::vector<double>& v) { return upload(queue, v, Dims{c}); };
        for (const bool biased : {false, true}) {
            BatchNormFold problem{.weight = upload(queue, weight, shape), .bias = {}, .gamma = vector(gamma),
                                  .beta = vector(beta), .mean = vector(mean), .variance = vector(variance),
                                  .scaled = upload(queue, weight, shape), .shifted = vector(beta), .eps = 1e-3};
            if (biased)
                problem.bias = vector(bias);
            fold_batch_norm(queue, problem);
            const auto scaled = download(queue, problem.scaled), shifted = download(queue, problem.shifted);
            for (std::int64_t j = 0; j < c; ++j) {
                const double factor = gamma[j] / std::sqrt(variance[j] + 1e-3);
                for (std::int64_t k = 0; k < row; ++k)
                    ASSERT_NEAR(scaled[j * row + k], weight[j * row + k] * factor, 2e-6) << to_string(shape);
                ASSERT_NEAR(shifted[j], ((biased ? bias[j] : 0) - mean[j]) * factor + beta[j], 4e-6);
            }
        }
    }
}

TEST(BatchNorm, FoldingRefusesWhatDoesNotFit)
{
    Queue& queue = Context::get().queue();
    const auto zeros = [](std::size_t count) { return std::vector<double>(count, 0); };
    const Tensor weight = upload(queue, zeros(12), {4, 3});
    const Tensor four = upload(queue, zeros(4), {4}), three = upload(queue, zeros(3), {3});
    EXPECT_THROW(fold_batch_norm(queue, {weight, {}, four, four, three, four, weight, four}), InvalidArgument);
    EXPECT_THROW(fold_batch_norm(queue, {weight, {}, four, four, four, four, four, four}), InvalidArgument);
    EXPECT_THROW(fold_batch_norm(queue, {weight, {}, four, {}, four, four, weight, four}), InvalidArgument);
}

TEST(BatchNorm, EvaluationSavesStatisticsWhereTheyAreWanted)
{
    Queue& queue = Context::get().queue();
    const Tensor mean = upload(queue, {1, 2, 3}, {3}), variance = upload(queue, {4, 1, 0.25}, {3});
    const std::vector<double> none(3, 0);
    for (std::int64_t batch : {2, 0}) {
        const Tensor x = upload(queue, std::vector<double>(batch * 6, 3), {batch, 3, 2}), y = x;
        const Tensor saved = upload(queue, none, {3}), invstd = upload(queue, none, {3});
        batch_norm(queue, {x, y, {}, {}, mean, variance, saved, invstd, false, 0.1, 0.});
        EXPECT_EQ(download(queue, saved), (std::vector<double>{1, 2, 3}));
        EXPECT_EQ(download(queue, invstd), (std::vector<double>{0.5, 1, 2}));
        const std::vector<double> expected{1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0};
        EXPECT_EQ(download(queue, y), std::vector<double>(expected.begin(), expected.begin() + batch * 6));
    }
    const Tensor x = upload(queue, std::vector<double>(6, 3), {1, 3, 2}), two = upload(queue, {0, 0}, {2});
    EXPECT_THROW(batch_norm(queue, {x, x, {}, {}, mean, variance, two, two, false, 0.1, 0.}), InvalidArgument);
}

// Groups so few that GPUs cut them into parts, and others.
TEST(GroupNorm, LargeGroupsMatchTheFormula)
{
    struct Groups {
        std::int64_t samples, groups, channels, inner;
    };
    Queue& queue = Context::get().queue();
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (const auto& [samples, groups, channels, inner] :
         {Groups{1, 2, 3, 17000}, {2, 1, 2, 20001}, {1, 4, 1, 33000}, {2, 3, 2, 50}, {1, 1, 40, 1024}}) {
        const std::int64_t all = groups * channels, size = channels * inner;
        const auto make = [&](std::int64_t count, double shift) {
            std::vector<double> v(count);
            for (double& e : v)
                e = float(normal(random) + shift);
            return v;
        };
        const auto x = make(samples * all * inner, 2), dy = make(x.size(), 0), w = make(all, 1), b = make(all, 0);
        const Dims shape{samples, all, inner};
        const std::vector<double> rows(samples * groups, 0);
        const Tensor tx = upload(queue, x, shape), ty = upload(queue, x, shape), tdy = upload(queue, dy, shape),
                     tdx = upload(queue, x, shape), tw = upload(queue, w, {all}), tb = upload(queue, b, {all}),
                     dw = upload(queue, w, {all}), db = upload(queue, w, {all}),
                     mean = upload(queue, rows, {samples * groups}), rstd = upload(queue, rows, {samples * groups});
        group_norm(queue, {tx, ty, tw, tb, mean, rstd, groups, 1e-5});
        group_norm_backward(queue, {tdy, tx, tw, mean, rstd, tdx, dw, db, groups});
        const auto y = download(queue, ty), dx = download(queue, tdx), got_dw = download(queue, dw),
                   got_db = download(queue, db);
        std::vector<double> sum_dw(all), sum_db(all);
        for (std::int64_t r = 0; r < samples * groups; ++r) {
            const double* px = x.data() + r * size;
            double m = 0, squares = 0, a = 0, dot = 0;
            for (std::int64_t i = 0; i < size; ++i)
                m += px[i] / double(size);
            for (std::int64_t i = 0; i < size; ++i)
                squares += (px[i] - m) * (px[i] - m) / double(size);
            const double s = 1 / std::sqrt(squares + 1e-5);
            for (std::int64_t i = 0; i < size; ++i) {
                const std::int64_t c = r % groups * channels + i / inner;
                const double g = dy[r * size + i], v = (px[i] - m) * s;
                a += g * w[c] / double(size);
                dot += g * w[c] * v / double(size);
                sum_dw[c] += g * v;
                sum_db[c] += g;
            }
            double worst = 0, worst_dx = 0;
            for (std::int64_t i = 0; i < size; ++i) {
                const std::int64_t c = r % groups * channels + i / inner, at = r * size + i;
                const double v = (px[i] - m) * s;
                worst = std::max(worst, std::abs(y[at] - (v * w[c] + b[c])));
                worst_dx = std::max(worst_dx, std::abs(dx[at] - (dy[at] * w[c] - a - v * dot) * s));
            }
            ASSERT_LT(worst, 2e-5);
            ASSERT_LT(worst_dx, 2e-5);
        }
        for (std::int64_t c = 0; c < all; ++c) {
            ASSERT_NEAR(got_dw[c], sum_dw[c], 1e-3 + 1e-5 * std::abs(sum_dw[c]));
            ASSERT_NEAR(got_db[c], sum_db[c], 1e-3 + 1e-5 * std::abs(sum_db[c]));
        }
    }
}

TEST(BatchNorm, WrongShapesAreRefused)
{
    Queue& queue = Context::get().queue();
    const Tensor x = upload(queue, std::vector<double>(12, 1), {2, 3, 2}), w = upload(queue, {1, 1}, {2});
    EXPECT_THROW(batch_norm(queue, {x, x, w, {}, {}, {}, {}, {}, true, 0.1, 1e-5}), InvalidArgument);
    EXPECT_THROW(batch_norm(queue, {x, x, {}, {}, {}, {}, {}, {}, false, 0.1, 1e-5}), InvalidArgument);
}

}  // namespace
