// Convolutions of eight-bit integers: every sum is exact, and so is what follows it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include <clprim/clprim.hpp>
#include <clprim/integer_conv.hpp>

using namespace clprim;

namespace {

Queue& queue() { return Context::get(0).queue(0); }

Dims channels_last(const Dims& shape)
{
    Dims strides = shape;
    std::int64_t step = shape[1];
    for (std::size_t i = shape.size() - 1; i >= 2; --i) {
        strides[i] = step;
        step *= shape[i];
    }
    strides[0] = step;
    strides[1] = 1;
    return strides;
}

struct Case {
    Dims x, w;
    ConvOptions options;
    DataType x_type = DataType::uint8, w_type = DataType::int8, y_type = DataType::uint8;
    bool last = true;        // channels_last x and y
    bool by_channel = true;  // zero points of w and scales
    bool narrow = false;     // weights of seven bits
    bool symmetric = false;  // weights as quantisation tools make them: without zero points, 128 of unsigned ones
};

class Numbers {
public:
    explicit Numbers(std::uint32_t seed) : random_(seed) {}

    // Values of the whole range of a type, the extremes often; in memory in the order of `strides`.
    Tensor bytes(DataType type, const Dims& shape, std::vector<int>& values, bool narrow = false)
    {
        const int low = narrow ? -64 : type == DataType::int8 ? -128 : 0, last = narrow ? 128 : 255;
        std::uniform_int_distribution<int> any(0, last), choice(0, 5);
        std::vector<std::uint8_t> raw;
        values.clear();
        for (std::int64_t i = 0; i < shape.product(); ++i) {
            const int pick = choice(random_);
            values.push_back(low + (pick == 0 ? 0 : pick == 1 ? last : any(random_)));
            raw.push_back(static_cast<std::uint8_t>(values.back()));
        }
        const Tensor t = queue().context().empty(shape, type, queue());
        queue().write(*t.memory, 0, raw.data(), raw.size());
        return t;
    }

    std::mt19937& random() { return random_; }

private:
    std::mt19937 random_;
};

template <class T>
Tensor tensor_of(const std::vector<T>& values, DataType type)
{
    const Tensor t = queue().context().empty({static_cast<std::int64_t>(values.size())}, type, queue());
    queue().write(*t.memory, 0, values.data(), values.size() * sizeof(T));
    return t;
}

struct Made {
    std::vector<int> x, w, x_zero, w_zero, y_zero;
    std::vector<std::int32_t> bias;
    std::vector<float> scale;
};

// s[n, o, p] as the definition says, of tensors whose strides are given.
std::int64_t sum_at(const Case& one, const Made& m, const Tensor& x, const Tensor& w, const Dims& at)
{
    const std::size_t axes = x.dim() - 2;
    const std::int64_t o = at[1], group = o / (w.size(0) / one.options.groups), channels = w.size(1);
    std::int64_t taps = 1, sum = m.bias.empty() ? 0 : m.bias[static_cast<std::size_t>(o)];
    for (std::size_t i = 0; i < axes; ++i)
        taps *= w.size(i + 2);
    const int zero = m.w_zero[one.by_channel ? static_cast<std::size_t>(o) : 0];
    for (std::int64_t tap = 0; tap < taps; ++tap) {
        std::int64_t rest = tap, from = at[0] * x.stride(0), of_w = o * w.stride(0);
        bool inside = true;
        for (std::size_t i = axes; i-- > 0;) {
            const std::int64_t k = rest % w.size(i + 2);
            rest /= w.size(i + 2);
            const std::int64_t place = at[i + 2] * one.options.stride[i] - one.options.pad_begin[i] +
                                       k * one.options.dilation[i];
            inside = inside && place >= 0 && place < x.size(i + 2);
            from += place * x.stride(i + 2);
            of_w += k * w.stride(i + 2);
        }
        for (std::int64_t c = 0; inside && c < channels; ++c)
            sum += (m.x[static_cast<std::size_t>(from + (group * channels + c) * x.stride(1))] - m.x_zero[0]) *
                   (m.w[static_cast<std::size_t>(of_w + c * w.stride(1))] - zero);
    }
    return sum;
}

void check(const Case& one)
{
    Numbers numbers(7);
    Made m;
    Tensor x = numbers.bytes(one.x_type, one.x, m.x);
    const Tensor w = numbers.bytes(one.w_type, one.w, m.w, one.narrow);
    if (one.last)
        x.strides = channels_last(x.shape);
    IntegerConv conv;
    conv.options = one.options;
    Prepared prepared;
    conv.x_zero = numbers.bytes(one.x_type, {1}, m.x_zero);
    conv.w_zero = numbers.bytes(one.w_type, {one.by_channel ? one.w[0] : 1}, m.w_zero);
    if (one.narrow || one.symmetric) {
        const bool is_unsigned = one.w_type == DataType::uint8;
        m.w_zero.assign(m.w_zero.size(), is_unsigned ? 128 : 0);
        conv.w_zero = is_unsigned ? tensor_of(std::vector<std::uint8_t>(m.w_zero.size(), 128), one.w_type) : Tensor{};
    }
    std::uniform_int_distribution<int> bias(-5000, 5000);
    for (std::int64_t i = 0; i < one.w[0]; ++i)
        m.bias.push_back(bias(numbers.random()));
    conv.bias = tensor_of(m.bias, DataType::int32);
    for (std::int64_t i = 0; i < (one.by_channel ? one.w[0] : 1); ++i)
        m.scale.push_back(1.0f / static_cast<float>(900 + 77 * i));
    conv.scale = tensor_of(m.scale, DataType::float32);
    const Dims shape = conv_output_shape(one.x, one.w, one.options);
    Tensor y = queue().context().empty(shape, one.y_type, queue());
    if (one.last)
        y.strides = channels_last(shape);
    if (one.y_type == DataType::int8 || one.y_type == DataType::uint8) {
        conv.y_zero = numbers.bytes(one.y_type, {1}, m.y_zero);
        conv.low = one.y_type == DataType::int8 ? -100 : 3;
    }
    const bool exact = one.y_type == DataType::int32, is_signed = one.y_type == DataType::int8;
    for (const bool first : {true, false}) {
        conv.options.prepared = first ? nullptr : &prepared;
        integer_conv(queue(), x, w, y, conv);
        std::vector<std::uint8_t> got(y.nbytes());
        queue().read(*y.memory, 0, got.data(), got.size());
        Dims at(shape.size(), 0);
        for (std::int64_t i = 0; i < shape.product(); ++i) {
            std::int64_t rest = i, offset = 0;
            for (std::size_t axis = shape.size(); axis-- > 0;) {
                at[axis] = rest % shape[axis];
                rest /= shape[axis];
                offset += at[axis] * y.stride(axis);
            }
            const auto sum = static_cast<std::int32_t>(sum_at(one, m, x, w, at));
            const auto place = static_cast<std::size_t>(offset);
            if (exact) {
                std::int32_t value = 0;
                std::memcpy(&value, got.data() + 4 * place, 4);
                ASSERT_EQ(value, sum) << to_string(at);
                continue;
            }
            const float scale = m.scale[one.by_channel ? static_cast<std::size_t>(at[1]) : 0];
            if (one.y_type == DataType::float32) {
                float value = 0;
                std::memcpy(&value, got.data() + 4 * place, 4);
                ASSERT_EQ(value, static_cast<float>(sum) * scale) << to_string(at);
                continue;
            }
            const float q = std::clamp(std::nearbyint(static_cast<float>(sum) * scale), -65536.0f, 65536.0f);
            const int expected = std::clamp(static_cast<int>(q) + m.y_zero[0], conv.low, is_signed ? 127 : 255);
            ASSERT_EQ(is_signed ? static_cast<std::int8_t>(got[place]) : got[place], expected)
                << to_string(one.x) << " " << to_string(one.w) << " at " << to_string(at);
        }
    }
}

ConvOptions options(Dims stride, Dims begin, Dims end, Dims dilation, std::int64_t groups = 1)
{
    ConvOptions result;
    result.stride = std::move(stride);
    result.pad_begin = std::move(begin);
    result.pad_end = std::move(end);
    result.dilation = std::move(dilation);
    result.groups = groups;
    return result;
}

}  // namespace

TEST(IntegerConv, OneGroup)
{
    check({{2, 20, 9, 7}, {35, 20, 1, 1}, options({1, 1}, {0, 0}, {0, 0}, {1, 1})});
    check({{1, 3, 17, 19}, {16, 3, 7, 7}, options({2, 2}, {3, 3}, {3, 3}, {1, 1})});
    check({{1, 64, 7, 7}, {40, 64, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1})});   // more k than a chunk
    check({{2, 5, 11, 8}, {9, 5, 3, 2}, options({2, 1}, {2, 0}, {0, 3}, {1, 1}), DataType::uint8, DataType::int8,
           DataType::int32});
    check({{1, 6, 12, 12}, {18, 6, 3, 3}, options({1, 1}, {2, 2}, {2, 2}, {2, 2}), DataType::uint8, DataType::int8,
           DataType::uint8, false, false});
    check({{1, 300, 2, 2}, {290, 300, 1, 1}, options({1, 1}, {0, 0}, {0, 0}, {1, 1})});
    check({{1, 10, 5, 5}, {23, 10, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}), DataType::uint8, DataType::int8,
           DataType::float32});
}

TEST(IntegerConv, Groups)
{
    check({{1, 24, 10, 9}, {24, 1, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 24)});
    check({{2, 33, 10, 9}, {33, 1, 5, 3}, options({2, 2}, {2, 1}, {2, 1}, {1, 1}, 33), DataType::uint8,
           DataType::int8, DataType::int32, false});
    check({{1, 12, 6, 6}, {20, 3, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 4)});
    check({{1, 8, 6, 6}, {16, 1, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 8)});   // two outputs a channel
}

// Kernels of 3x3 and 5x5 with channels innermost, the last sixteen of which overlap others.
TEST(IntegerConv, DepthwiseByRows)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8, i = DataType::int32, f = DataType::float32;
    check({{2, 16, 9, 11}, {16, 1, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 16), u, s, u, true});
    check({{1, 40, 10, 9}, {40, 1, 3, 3}, options({2, 2}, {1, 1}, {1, 1}, {1, 1}, 40), s, u, s, true});
    check({{2, 33, 8, 13}, {33, 1, 5, 5}, options({1, 1}, {2, 2}, {2, 2}, {1, 1}, 33), u, u, i, true});
    check({{1, 21, 9, 8}, {21, 1, 5, 5}, options({2, 2}, {2, 1}, {1, 2}, {1, 1}, 21), s, s, f, true});
    check({{1, 16, 7, 6}, {16, 1, 3, 3}, options({1, 2}, {0, 3}, {2, 0}, {2, 1}, 16), u, s, s, true, false});
    check({{1, 17, 2, 1}, {17, 1, 5, 5}, options({1, 1}, {2, 2}, {2, 2}, {1, 1}, 17), u, s, u, true});
    check({{1, 24, 10, 9}, {24, 1, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 24), u, s, u, true, true, true});
}

// Pairs of such weights and of any bytes fit into 16 bits.
TEST(IntegerConv, WeightsOfSevenBits)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8, i = DataType::int32;
    check({{1, 64, 7, 7}, {40, 64, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}), u, s, u, true, true, true});
    check({{2, 3, 17, 19}, {16, 3, 7, 7}, options({2, 2}, {3, 3}, {3, 3}, {1, 1}), s, s, i, true, true, true});
    check({{1, 10, 6, 6}, {22, 5, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), u, s, u, false, true, true});
}

// Signed weights without zero points stay bytes where the processor multiplies those exactly, whatever they are: pixels
// and panels of outputs in whole tiles and beside them, runs of taps in whole words and not, more k than a chunk.
TEST(IntegerConv, WeightsOfEightBits)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8, i = DataType::int32, f = DataType::float32;
    const auto plain = [](Dims x, Dims w, ConvOptions o, DataType x_type, DataType y_type, bool last) {
        check({std::move(x), std::move(w), std::move(o), x_type, DataType::int8, y_type, last, true, false, true});
    };
    for (const std::int64_t pixels : {1, 2, 3, 4, 5, 7, 8, 9, 15, 49})
        for (const std::int64_t outputs : {1, 16, 17, 33})
            plain({1, 12, pixels}, {outputs, 12, 1}, options({1}, {0}, {0}, {1}), pixels % 2 ? s : u, i, true);
    plain({1, 64, 7, 7}, {40, 64, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}), u, u, true);
    plain({2, 3, 17, 19}, {16, 3, 7, 7}, options({2, 2}, {3, 3}, {3, 3}, {1, 1}), s, i, true);
    plain({1, 10, 6, 6}, {66, 5, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), u, s, false);
    plain({2, 7, 30}, {17, 7, 5}, options({2}, {2}, {1}, {1}), s, f, true);
    plain({1, 600, 3, 3}, {290, 600, 1, 1}, options({1, 1}, {0, 0}, {0, 0}, {1, 1}), s, u, true);
    // Unsigned weights are bytes as well where zero points leave them so.
    check({{1, 20, 5, 4}, {20, 20, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}), u, u, i, true, true, false, true});
}

// Sums become results where they are computed: all counts of rows and columns that tiles have,
// pixels read in place and gathered, more k than a chunk, channels that end within a panel.
TEST(IntegerConv, EndInTiles)
{
    constexpr DataType s = DataType::int8, u = DataType::uint8, i = DataType::int32, f = DataType::float32;
    const auto plain = [](Dims x, Dims w, ConvOptions o, DataType x_type, DataType y_type, bool last = true) {
        check({std::move(x), std::move(w), std::move(o), x_type, DataType::int8, y_type, last, true, false, true});
    };
    for (const std::int64_t pixels : {1, 2, 3, 4, 5, 7, 8, 15, 49, 301})
        for (const std::int64_t outputs : {1, 16, 17, 32, 56})
            plain({1, 24, pixels}, {outputs, 24, 1}, options({1}, {0}, {0}, {1}), pixels % 2 ? s : u,
                  pixels % 3 ? u : s);
    const auto one = options({1, 1}, {0, 0}, {0, 0}, {1, 1}), three = options({1, 1}, {1, 1}, {1, 1}, {1, 1});
    plain({3, 32, 9, 7}, {24, 32, 1, 1}, one, u, u);
    plain({2, 960, 5, 5}, {290, 960, 1, 1}, one, u, s);
    plain({2, 32, 9, 7}, {48, 32, 1, 1}, options({2, 2}, {0, 0}, {0, 0}, {1, 1}), u, u);
    plain({1, 96, 7, 7}, {72, 96, 3, 3}, three, u, u);
    plain({1, 96, 7, 7}, {72, 96, 3, 3}, three, s, s);
    plain({1, 96, 7, 7}, {75, 96, 3, 3}, three, u, i);
    plain({2, 40, 7, 7}, {75, 40, 1, 1}, one, u, i);
    plain({2, 40, 7, 7}, {91, 40, 1, 1}, one, u, f);
    plain({2, 3, 17, 19}, {32, 3, 3, 3}, options({2, 2}, {1, 1}, {1, 1}, {1, 1}), u, u);   // runs of nine bytes
    plain({2, 3, 17, 19}, {20, 3, 3, 3}, options({2, 2}, {0, 0}, {0, 0}, {1, 1}), u, s);
    plain({1, 64, 6, 6}, {80, 32, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2), u, u);
    plain({1, 16, 3, 4, 5}, {24, 16, 1, 1, 1}, options({1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}), u, u);
    plain({1, 32, 6, 6}, {16, 32, 1, 1}, one, u, u, false);
}

TEST(IntegerConv, TypesAndAxes)
{
    check({{2, 7, 30}, {17, 7, 5}, options({2}, {2}, {1}, {1})});
    check({{1, 4, 5, 6, 7}, {6, 4, 3, 3, 3}, options({1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}), DataType::int8,
           DataType::int8, DataType::int8});
    check({{1, 16, 5, 5}, {16, 1, 3, 3}, options({1, 1}, {1, 1}, {1, 1}, {1, 1}, 16), DataType::int8, DataType::int8,
           DataType::int8});
}

// Every engine by its emulation; what is there once for all of them by one: types, layouts, axes.
TEST(IntegerConv, ByMatrixEngines)
{
    if (queue().device().kind != DeviceKind::gpu)
        GTEST_SKIP() << "for GPUs";
    constexpr DataType s = DataType::int8, u = DataType::uint8;
    const bool portable = queue().device().platform_name.find("Portable") != std::string::npos;
    const Case one{{2, 32, 7, 6}, {24, 32, 3, 3}, options({2, 1}, {1, 1}, {1, 2}, {1, 1})};
    setenv("CLPRIM_MATRIX_ENGINE", "emulated_mma", 1);
    check(one);
    if (portable) {   // its compiler takes minutes for all of them
        unsetenv("CLPRIM_MATRIX_ENGINE");
        return;
    }
    check({{1, 48, 5, 6}, {18, 48, 2, 2}, options({1, 1}, {1, 0}, {0, 1}, {1, 2}), s, u, s, false});
    check({{1, 16, 3, 4, 5}, {20, 16, 2, 3, 1}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 0}, {1, 1, 1}), u, s,
           DataType::float32});
    check({{3, 80, 41}, {33, 80, 1}, options({1}, {0}, {0}, {1}), s, s, DataType::int32});
    check({{2, 32, 7, 6}, {24, 32, 3, 3}, options({2, 1}, {1, 1}, {1, 2}, {1, 1}), u, s, u, true, true, true});
    for (const char* engine : {"dpas16", "dpas8", "wmma", "wmma12", "mfma"}) {
        setenv("CLPRIM_MATRIX_ENGINE", (std::string("emulated_") + engine).c_str(), 1);
        check(one);
    }
    unsetenv("CLPRIM_MATRIX_ENGINE");
}

TEST(IntegerConv, SaysWhatDoesNotFit)
{
    const auto empty = [](Dims shape, DataType type) { return queue().context().empty(shape, type, queue()); };
    const Tensor x = empty({1, 4, 5, 5}, DataType::uint8), w = empty({6, 4, 3, 3}, DataType::int8);
    EXPECT_THROW(integer_conv(queue(), x, w, empty({1, 6, 4, 3}, DataType::int32), {}), InvalidArgument);
    EXPECT_THROW(integer_conv(queue(), x, w, empty({1, 6, 3, 3}, DataType::uint8), {}), InvalidArgument);   // no scale
    EXPECT_THROW(integer_conv(queue(), empty({1, 4, 5, 5}, DataType::float32), w,
                              empty({1, 6, 3, 3}, DataType::int32), {}), InvalidArgument);
    IntegerConv conv;
    conv.bias = empty({5}, DataType::int32);
    EXPECT_THROW(integer_conv(queue(), x, w, empty({1, 6, 3, 3}, DataType::int32), conv), InvalidArgument);
}
