// Pooling against the definition, over layouts, adaptive and sliding windows; forward and backward.
#include <algorithm>
#include <random>

#include <clprim/pool.hpp>
#include <gtest/gtest.h>

#include "kernels/host_tensor.hpp"

namespace {

using namespace clprim;

struct Case {
    std::int64_t channels, in, out;
    PoolWindow window;
    bool channels_last;
};

class PoolTest : public testing::TestWithParam<Case> {};

Dims strides_of(const Dims& shape, bool channels_last)
{
    const std::int64_t c = shape[1], h = shape[2], w = shape[3];
    return channels_last ? Dims{c * h * w, 1, w * c, c} : contiguous_strides(shape);
}

TEST_P(PoolTest, ForwardAndBackwardMatchTheDefinition)
{
    const auto& [channels, in, out, window, channels_last] = GetParam();
    Queue& queue = Context::get().queue();
    const Dims wide{2, channels, in, in}, narrow{2, channels, out, out};
    const Dims ws = strides_of(wide, channels_last), ns = strides_of(narrow, channels_last);
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    std::vector<double> x(wide.product()), dy(narrow.product());
    for (double& v : x)
        v = float(normal(random));
    for (double& v : dy)
        v = float(normal(random));
    const Tensor tx = test::upload(queue, x, wide, ws), tdy = test::upload(queue, dy, narrow, ns);
    const Tensor ty = test::upload(queue, dy, narrow, ns), ta = test::upload(queue, dy, narrow, ns);
    const Tensor tdx = test::upload(queue, x, wide, ws), tda = test::upload(queue, x, wide, ws);
    Tensor indices = queue.context().empty(narrow, DataType::int64, queue);
    indices.strides = ns;
    max_pool(queue, tx, ty, indices, window);
    max_pool_backward(queue, tdy, indices, tdx, window);
    average_pool(queue, tx, ta, window);
    average_pool_backward(queue, tdy, tda, window);
    const auto y = test::download(queue, ty), a = test::download(queue, ta), dx = test::download(queue, tdx),
               da = test::download(queue, tda);

    std::vector<double> expected_dx(x.size()), expected_da(x.size());
    const auto range = [&, in = in, out = out, &window = window](std::int64_t o, int axis,
                                                                 bool padded) -> std::pair<std::int64_t, std::int64_t> {
        if (window.adaptive)
            return {o * in / out, ((o + 1) * in + out - 1) / out};
        const std::int64_t begin = o * window.stride[axis] - window.padding[axis], end = begin + window.kernel[axis];
        if (padded)
            return {begin, std::min(end, in + window.padding[axis])};
        return {std::max<std::int64_t>(begin, 0), std::min(end, in)};
    };
    for (std::int64_t n = 0; n < 2; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t oy = 0; oy < out; ++oy)
                for (std::int64_t ox = 0; ox < out; ++ox) {
                    const auto [y0, y1] = range(oy, 0, false);
                    const auto [x0, x1] = range(ox, 1, false);
                    const auto [py0, py1] = range(oy, 0, window.count_include_pad);
                    const auto [px0, px1] = range(ox, 1, window.count_include_pad);
                    const double count = double(py1 - py0) * (px1 - px0);
                    const std::int64_t o = n * ns[0] + c * ns[1] + oy * ns[2] + ox * ns[3];
                    double largest = -1e30, sum = 0;
                    std::int64_t where = 0;
                    for (auto iy = y0; iy < y1; ++iy)
                        for (auto ix = x0; ix < x1; ++ix) {
                            const std::int64_t i = n * ws[0] + c * ws[1] + iy * ws[2] + ix * ws[3];
                            sum += x[i];
                            expected_da[i] += dy[o] / count;
                            if (x[i] > largest) {
                                largest = x[i];
                                where = i;
                            }
                        }
                    expected_dx[where] += dy[o];
                    ASSERT_EQ(y[o], largest);
                    ASSERT_NEAR(a[o], sum / count, 1e-5);
                }
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(dx[i], expected_dx[i], 1e-5);
        ASSERT_NEAR(da[i], expected_da[i], 1e-5);
    }
}

// Windows with gaps, and more padding behind than in front, which an average may count.
TEST(AveragePool, DilatedAndAsymmetric)
{
    Queue& queue = Context::get().queue();
    constexpr int in = 23;
    std::vector<double> x(in);
    for (int i = 0; i < in; ++i)
        x[i] = i * i % 11;
    for (const bool padding_counts : {true, false})
        for (const int dilation : {1, 2, 3}) {
            PoolWindow window{{1, 3, 1}, {1, 2, 1}, {0, 1, 0}, {1, dilation, 1}};
            window.padding_end = {0, 3, 0};
            window.count_include_pad = padding_counts;
            const int out = (in + 4 - 2 * dilation - 1) / 2 + 1;
            const Tensor y = queue.context().empty({1, 1, 1, out}, DataType::float32, queue);
            average_pool(queue, test::upload(queue, x, {1, 1, 1, in}), y, window);
            const std::vector<double> result = test::download(queue, y);
            for (int o = 0; o < out; ++o) {
                double sum = 0, count = 0;
                for (int k = 0; k < 3; ++k) {
                    const int at = 2 * o - 1 + k * dilation;
                    const bool inside = at >= 0 && at < in;
                    sum += inside ? x[at] : 0;
                    count += inside || (padding_counts && at < in + 3);
                }
                EXPECT_NEAR(result[o], sum / std::max(count, 1.0), 1e-5) << dilation << ' ' << o;
            }
        }
}

// Bytes with channels innermost, whose channels come in sixteens on CPUs, against the same windows of float32.
TEST(MaxPool, BytesWithChannelsInnermost)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random(2);
    for (const DataType type : {DataType::int8, DataType::uint8})
        for (const std::int64_t channels : {3, 16, 40})
            for (const int dilation : {1, 2}) {
                const PoolWindow window{{3, 3, 1}, {2, 2, 1}, {1, 1, 0}, {dilation, dilation, 1}};
                const std::int64_t in = 9, out = (in + 1 - 2 * dilation) / 2 + 1;
                const Dims wide{2, channels, in, in}, narrow{2, channels, out, out};
                std::uniform_int_distribution<int> any(0, 255);
                std::vector<std::uint8_t> bytes(wide.product()), got(narrow.product());
                std::vector<double> numbers;
                for (std::uint8_t& byte : bytes) {
                    byte = static_cast<std::uint8_t>(any(random));
                    numbers.push_back(type == DataType::int8 ? static_cast<std::int8_t>(byte) : byte);
                }
                Tensor x = queue.context().empty(wide, type, queue), y = queue.context().empty(narrow, type, queue);
                x.strides = strides_of(wide, true);
                y.strides = strides_of(narrow, true);
                queue.write(*x.memory, 0, bytes.data(), bytes.size());
                max_pool(queue, x, y, {}, window);
                queue.read(*y.memory, 0, got.data(), got.size());
                const Tensor expected = test::upload(queue, std::vector<double>(got.size()), narrow, y.strides);
                max_pool(queue, test::upload(queue, numbers, wide, x.strides), expected, {}, window);
                const std::vector<double> largest = test::download(queue, expected);
                for (std::size_t i = 0; i < got.size(); ++i)
                    ASSERT_EQ(type == DataType::int8 ? static_cast<std::int8_t>(got[i]) : got[i], largest[i])
                        << channels << ' ' << dilation << ' ' << i;
            }
}

// Without positions CPUs take another kernel where channels lie innermost.
TEST(MaxPool, WithAndWithoutPositions)
{
    Queue& queue = Context::get().queue();
    std::mt19937 random(3);
    std::uniform_real_distribution<float> any(-1, 1);
    for (const std::int64_t channels : {3, 16, 24, 40})
        for (const int dilation : {1, 2}) {
            const PoolWindow window{{3, 2, 1}, {2, 1, 1}, {1, 0, 0}, {dilation, dilation, 1}};
            const std::int64_t in = 9, high = (in + 1 - 2 * dilation) / 2 + 1, wide = in - dilation;
            const Dims from{2, channels, in, in}, to{2, channels, high, wide};
            std::vector<double> numbers(static_cast<std::size_t>(from.product()));
            std::ranges::generate(numbers, [&] { return any(random); });
            for (std::size_t i = 0; i < numbers.size(); i += 31)
                numbers[i] = i % 2 ? NAN : -INFINITY;
            const Tensor x = test::upload(queue, numbers, from, strides_of(from, true));
            Tensor y = queue.context().empty(to, DataType::float32, queue);
            Tensor other = queue.context().empty(to, DataType::float32, queue);
            Tensor positions = queue.context().empty(to, DataType::int64, queue);
            for (Tensor* tensor : {&y, &other, &positions})
                tensor->strides = strides_of(to, true);
            max_pool(queue, x, y, {}, window);
            max_pool(queue, x, other, positions, window);
            const std::vector<double> got = test::download(queue, y), expected = test::download(queue, other);
            for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))
                    << channels << ' ' << dilation << ' ' << i << ": " << got[i] << ' ' << expected[i];
        }
}

const PoolWindow sliding{{3, 3, 1}, {2, 2, 1}, {1, 1, 0}};
const PoolWindow uncounted{{3, 3, 1}, {2, 2, 1}, {1, 1, 0}, {1, 1, 1}, false, false};
const PoolWindow adaptive{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, true};

INSTANTIATE_TEST_SUITE_P(Shapes, PoolTest,
                         testing::Values(Case{3, 9, 5, sliding, false}, Case{3, 9, 5, uncounted, false},
                                         Case{20, 9, 5, uncounted, true}, Case{20, 9, 5, sliding, true},
                                         Case{32, 8, 4, sliding, true}, Case{2, 7, 3, adaptive, false},
                                         Case{17, 5, 7, adaptive, true}, Case{1, 11, 1, adaptive, false},
                                         Case{3, 9, 5, sliding, true}));

}  // namespace
