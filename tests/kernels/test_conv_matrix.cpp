// Convolution by matrix engines, every engine by its emulation: what comes out is the exact sum rounded once.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <core/choose.hpp>
#include <kernels/conv/problem.hpp>
#include <kernels/gemm/gpu_matrix.hpp>

#include "kernels/conv_exact.hpp"
#include "kernels/matrix_engine_test.hpp"

using namespace clprim;
using namespace clprim::testing_gemm;
using namespace clprim::test;

namespace {

class ConvMatrix : public test::MatrixEngineTest {
protected:
    void SetUp() override
    {
        MatrixEngineTest::SetUp();
        setenv("CLPRIM_MATRIX_ENGINE", GetParam() == std::string("own") ? "" : GetParam(), 1);
    }
    void TearDown() override
    {
        unsetenv("CLPRIM_MATRIX_ENGINE");
        prefer_implementation("conv", "");
    }
};

// A tensor amid the zeros that a kernel sees around it.
Host amid_zeros(const Host& x, const ConvOptions& options)
{
    Dims shape = x.shape;
    const Dims& after = options.pad_end.empty() ? options.pad_begin : options.pad_end;
    for (std::size_t i = 2; i < shape.size(); ++i)
        shape[i] += options.pad_begin[i - 2] + after[i - 2];
    Host result(shape, Layout::contiguous, nullptr);
    for (std::int64_t i = 0; i < x.shape.product(); ++i) {
        std::int64_t from = 0, to = 0, rest = i;
        for (std::size_t axis = shape.size(); axis-- > 0; rest /= x.shape[axis]) {
            const std::int64_t at = rest % x.shape[axis];
            from += at * x.strides[axis];
            to += (at + (axis < 2 ? 0 : options.pad_begin[axis - 2])) * result.strides[axis];
        }
        result.values[static_cast<std::size_t>(to)] = x.values[static_cast<std::size_t>(from)];
    }
    return result;
}

// Weight gradients of what is infinite or NaN, in some channels of x or dy: in corners, on edges and in the middle. It
// reaches the taps that see it and no others; zeros around x are numbers as any other, for dy.
void check_not_finite(const ExactCase& c)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::mt19937 random(7);
    const Dims y_shape = conv_output_shape(c.x, c.w, c.options);
    ConvOptions unpadded = c.options;
    unpadded.pad_begin = unpadded.pad_end = {};
    for (const bool in_dy : {false, true}) {
        Host x(c.x, c.layout, &random), y(y_shape, c.layout, &random), dw(c.w, c.layout, nullptr);
        Host& spoilt = in_dy ? y : x;
        std::int64_t count = 0;
        for (const double value : {infinity, -infinity, static_cast<double>(NAN)})
            for (std::int64_t where = 0; where < 9; ++where, ++count) {   // three places of either of the last two axes
                const std::int64_t channel = count * 3 % spoilt.shape[1];
                std::int64_t at = count % c.x[0] * spoilt.strides[0] + channel * spoilt.strides[1], rest = where;
                for (std::size_t axis = c.x.size(); axis-- > 2; rest /= 3)
                    at += rest % 3 * (spoilt.shape[axis] - 1) / 2 * spoilt.strides[axis];
                spoilt.values[static_cast<std::size_t>(at)] = value;
            }
        Host padded = amid_zeros(x, c.options);
        test::products({&padded, &dw, &y}, unpadded, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
            dw.values[wi] += padded.values[xi] * y.values[yi];
        });
        EXPECT_TRUE(std::any_of(dw.values.begin(), dw.values.end(), [](double v) { return std::isnan(v); }));
        EXPECT_TRUE(std::any_of(dw.values.begin(), dw.values.end(), [](double v) { return std::isfinite(v); }));
        Host nan = dw;
        fill_nan(nan);
        const Tensor weight = upload(nan, c.type);
        ConvOptions options = c.options;
        options.implementation = c.implementation;
        conv_backward_weight(queue(), upload(x, c.type), upload(y, c.type), weight, options);
        compare(weight, dw, in_dy ? "weight gradient, dy not finite" : "weight gradient, x not finite");
    }
}

}  // namespace

// Whole groups of eight channels that are read in place; more pixels than a tile has, and fewer channels.
TEST_P(ConvMatrix, ChannelsLast)
{
    check({{2, 24, 9, 11}, {40, 24, 3, 3}, test::conv({1, 1}, {1, 1}), Layout::channels_last, DataType::float16});
}

// Planar tensors, channels that do not come in eights, strides, dilation, groups, one tap, three dimensions.
TEST_P(ConvMatrix, OfAllKinds)
{
    if (GetParam() != std::string("emulated_mma"))
        GTEST_SKIP() << "where elements come from is one text for all engines";
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    if (queue().device().platform_name.find("Portable") != std::string::npos)   // its compiler: half a minute for each
        return check({{2, 5, 9, 11}, {70, 5, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half});
    check({{2, 5, 9, 11}, {70, 5, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half}, true);
    check({{2, 5, 9, 11}, {7, 5, 3, 3}, test::conv({1, 1}, {1, 1}), last, half}, true);
    check({{2, 3, 19, 23}, {40, 3, 7, 7}, test::conv({2, 2}, {3, 3}), last, half});   // few channels, with a border
    check({{1, 4, 8, 9}, {24, 4, 2, 5}, test::conv({3, 4}, {0, 1}), planar, bfloat});
    check({{2, 16, 8, 12}, {24, 16, 3, 3}, test::conv({2, 2}, {1, 1}), planar, half});
    check({{1, 40, 17, 18}, {48, 20, 3, 2}, test::conv({2, 3}, {2, 1}, {2, 3}, 2), last, half});
    check({{2, 16, 8, 8}, {32, 16, 1, 1}, test::conv({1, 1}, {0, 0}), planar, half}, true);
    check({{2, 16, 4, 6}, {32, 16, 1, 1}, test::conv({1, 1}, {0, 0}), last, half}, true);
    check({{1, 16, 7, 7}, {72, 16, 1, 1}, test::conv({2, 2}, {0, 0}), last, bfloat});
    check({{1, 3, 5, 6, 7}, {5, 3, 3, 3, 3}, test::conv({1, 1, 1}, {1, 1, 1}), planar, half});
    check({{1, 4, 11, 10}, {5, 4, 2, 2}, test::conv({3, 3}, {0, 0}), planar, half});
}

// No two taps see one number: products of patches. Many taps, numbers of x that no tap sees, weights and tensors that
// lie in either order, images that are no one matrix, dilation, one and three dimensions, one pixel.
TEST_P(ConvMatrix, InPatches)
{
    if (GetParam() != std::string("emulated_mma"))
        GTEST_SKIP() << "where elements come from is one text for all engines";
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    check({{2, 3, 28, 42}, {40, 3, 14, 14}, test::conv({14, 14}, {0, 0}), planar, half});
    if (queue().device().platform_name.find("Portable") != std::string::npos)   // its compiler: half a minute for each
        return;
    check({{2, 3, 37, 33}, {24, 3, 16, 12}, test::conv({16, 13}, {0, 0}), last, half});
    check({{3, 3, 9, 12}, {17, 3, 4, 4}, test::conv({4, 4}, {0, 0}), planar, bfloat}, true);
    check({{2, 15, 8, 7}, {33, 15, 2, 2}, test::conv({3, 3}, {0, 0}, {2, 1}), last, half});
    check({{2, 2, 50}, {16, 2, 16}, test::conv({16}, {0}), planar, half});
    check({{2, 3, 4, 13, 12}, {20, 3, 2, 6, 4}, test::conv({2, 6, 4}, {0, 0, 0}), planar, bfloat});
    check({{3, 20, 12, 12}, {16, 20, 12, 12}, test::conv({1, 1}, {0, 0}), last, half});   // a pixel of each image
}

// Channels in whole blocks: images, rows and columns that pieces do not divide, taps together and apart, both layouts,
// strides in rows and columns, padding on one side, groups, one dimension.
TEST_P(ConvMatrix, InBlocks)
{
    if (GetParam() != std::string("emulated_dpas16"))
        GTEST_SKIP() << "for the engine that reads blocks";
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    check({{2, 32, 9, 11}, {40, 32, 3, 3}, test::conv({1, 1}, {1, 1}), last, half}, true);
    check({{3, 32, 12, 8}, {32, 32, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half}, true);
    check({{2, 32, 7, 5}, {96, 32, 3, 3}, test::conv({1, 1}, {1, 0}), planar, bfloat}, true);
    check({{1, 64, 19, 18}, {64, 32, 3, 2}, test::conv({2, 3}, {2, 1}, {2, 3}, 2), last, half});
    check({{1, 64, 18, 35}, {64, 32, 3, 3}, test::conv({2, 2}, {1, 1}, {1, 1}, 2), planar, half});
    check({{2, 32, 40, 5}, {33, 32, 2, 3}, test::conv({3, 1}, {0, 2}, {1, 2}), last, bfloat}, true);
    check({{2, 32, 29}, {32, 32, 5}, test::conv({1}, {2}), planar, half});
    check({{1, 32, 1, 70}, {32, 32, 1, 3}, test::conv({1, 2}, {0, 1}), last, half});
    check({{1, 32, 9, 9}, {35, 32, 1, 1}, test::conv({2, 2}, {0, 0}), last, half});
    check({{2, 20, 11, 6}, {30, 20, 3, 3}, test::conv({1, 1}, {1, 1}), last, half});   // filled up to 32 channels
    check({{1, 48, 17, 9}, {36, 24, 3, 3}, test::conv({2, 1}, {1, 1}, {1, 1}, 2), planar, half});
    // Few channels: all taps along a row are read together.
    check({{2, 3, 19, 23}, {40, 3, 7, 7}, test::conv({2, 2}, {3, 3}), last, half});
    check({{2, 4, 12, 9}, {24, 4, 3, 5}, test::conv({1, 1}, {1, 2}), planar, half});
    check({{1, 18, 9, 8}, {33, 18, 2, 3}, test::conv({1, 3}, {0, 1}), last, bfloat});
    check({{2, 16, 10, 14}, {70, 16, 3, 3}, test::conv({1, 2}, {2, 0}, {2, 1}), last, half});
    check({{1, 16, 10, 9}, {32, 16, 3, 3}, test::conv({1, 1}, {1, 1}, {1, 2}), planar, bfloat});
    check({{2, 10, 9, 13}, {9, 10, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half}, true);
    check({{1, 12, 8, 15}, {11, 12, 1, 1}, test::conv({1, 1}, {0, 0}), planar, bfloat});
    check({{1, 5, 40}, {24, 5, 4}, test::conv({2}, {3}), planar, half});
    ConvOptions uneven = test::conv({1, 1}, {2, 0});
    uneven.pad_end = {0, 1};
    check({{1, 32, 15, 6}, {32, 32, 3, 3}, uneven, last, half});
    // Weight gradients of images of few rows, which become one.
    check({{5, 32, 7, 7}, {40, 32, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half});
    check({{7, 32, 5, 9}, {32, 32, 3, 2}, test::conv({1, 1}, {0, 1}), last, bfloat});
    check({{4, 64, 11, 7}, {64, 32, 3, 3}, test::conv({2, 1}, {1, 1}, {1, 1}, 2), last, half});
    check({{9, 32, 8, 4}, {33, 32, 1, 1}, test::conv({3, 2}, {0, 0}), planar, half});   // rows that no tap sees
    check({{3, 8, 19, 12}, {24, 8, 5, 3}, test::conv({3, 1}, {2, 1}), last, half});
    check({{3, 32, 9, 9}, {16, 32, 2, 2}, test::conv({1, 1}, {1, 1}, {2, 1}), last, half});
    check({{6, 32, 6, 7}, {32, 32, 3, 3}, uneven, planar, bfloat});
}

// What is not a number stays where a kernel sees it, though blocks are wider than a kernel.
TEST_P(ConvMatrix, NanStaysWhereItIsSeen)
{
    if (GetParam() != std::string("emulated_dpas16"))
        GTEST_SKIP() << "for the engine that reads blocks";
    for (const Layout layout : {Layout::contiguous, Layout::channels_last})
        for (const std::int64_t channels : {3, 6}) {
            std::mt19937 random(6);
            Host x({1, channels, 8, 16}, layout, &random), w({8, channels, 3, 3}, layout, &random);
            for (std::int64_t c = 0; c < channels; ++c)
                x.values[c * x.strides[1] + 4 * x.strides[2] + 9 * x.strides[3]] = NAN;
            Host y({1, 8, 8, 16}, layout, nullptr);
            const Tensor result = upload(y, DataType::float16);
            conv_forward(queue(), upload(x, DataType::float16), upload(w, DataType::float16), Tensor(), result,
                         test::conv({1, 1}, {1, 1}));
            std::vector<std::uint16_t> got(y.values.size());
            queue().read(*result.memory, 0, got.data(), 2 * got.size());
            for (std::int64_t c = 0; c < 8; ++c)
                for (std::int64_t row = 0; row < 8; ++row)
                    for (std::int64_t column = 0; column < 16; ++column) {
                        const bool nan =
                            (got[c * y.strides[1] + row * y.strides[2] + column * y.strides[3]] & 0x7fff) > 0x7c00;
                        EXPECT_EQ(nan, std::abs(row - 4) < 2 && std::abs(column - 9) < 2)
                            << channels << " channels, at " << row << ", " << column;
                    }
        }
}

// Weight gradients by loads that transpose: blocks of one tap, of two and of more, outputs and pixels that tiles do not
// divide, pixels in parts, strides, dilation, groups, padding on one side, one and three dimensions.
TEST_P(ConvMatrix, Turned)
{
    if (GetParam() != std::string("emulated_wmma12"))
        GTEST_SKIP() << "for the engine that has such loads";
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    check({{2, 3, 19, 23}, {40, 3, 7, 7}, test::conv({2, 2}, {3, 3}), last, half});
    if (queue().device().platform_name.find("Portable") != std::string::npos)   // its compiler: half a minute for each
        return;
    check({{2, 5, 9, 11}, {70, 5, 3, 3}, test::conv({1, 1}, {1, 1}), planar, bfloat});
    check({{2, 32, 37, 33}, {64, 32, 3, 3}, test::conv({1, 1}, {1, 1}), last, half});   // in parts
    check({{1, 64, 18, 17}, {128, 64, 3, 3}, test::conv({2, 2}, {1, 1}), last, bfloat});
    check({{1, 40, 17, 18}, {48, 20, 3, 2}, test::conv({2, 3}, {2, 1}, {2, 3}, 2), last, half});
    check({{2, 96, 6, 7}, {34, 48, 1, 1}, test::conv({2, 2}, {0, 0}, {1, 1}, 2), planar, half});
    check({{1, 16, 5, 6, 7}, {5, 16, 3, 3, 3}, test::conv({1, 1, 1}, {1, 1, 1}), last, half});
    check({{2, 24, 29}, {32, 24, 5}, test::conv({1}, {2}), planar, half});
    check({{1, 8, 3, 3}, {8, 8, 3, 3}, test::conv({1, 1}, {0, 0}), last, half});   // one pixel
    ConvOptions uneven = test::conv({1, 1}, {2, 0});
    uneven.pad_end = {0, 1};
    check({{1, 16, 15, 6}, {32, 16, 3, 3}, uneven, last, half});
    // They were what computed these: the device has been found to have them.
    const std::size_t index = detail::matrix_tiles(engine.engine).size();
    prefer_implementation("conv", "gpu_matrix:tile=" + std::to_string(index));
    const Tensor x = queue().context().empty({1, 8, 4, 4}, half, queue());
    const Tensor w = queue().context().empty({8, 8, 3, 3}, half, queue());
    EXPECT_NO_THROW(conv_backward_weight(queue(), x, x, w, test::conv({1, 1}, {1, 1})));
}

// Weight gradients of lines of pixels: images between zeros, residues of strides, taps before and behind an image and
// beyond its rows, groups, padding on one side, one and three dimensions, several blocks and parts.
TEST_P(ConvMatrix, InLines)
{
    const std::string name = GetParam();
    if (name != "emulated_wmma" && name != "emulated_dpas8" && name != "emulated_mfma")
        GTEST_SKIP() << "other engines have better ways";
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    check({{2, 40, 17, 18}, {48, 20, 3, 2}, test::conv({2, 3}, {2, 1}, {2, 3}, 2), last, half});
    check({{2, 3, 19, 23}, {40, 3, 7, 7}, test::conv({2, 2}, {3, 3}), planar, bfloat});
    if (name != "emulated_wmma")   // where lines lie is one text for all engines, but for Intel's, which these tried
        return;
    check({{2, 5, 19, 11}, {70, 5, 3, 3}, test::conv({1, 1}, {1, 1}), planar, bfloat});
    check({{2, 32, 37, 33}, {64, 32, 3, 3}, test::conv({1, 1}, {1, 1}), last, half});   // in parts
    check({{1, 64, 18, 17}, {128, 64, 3, 3}, test::conv({2, 2}, {1, 1}), planar, half});
    check({{3, 32, 16, 16}, {35, 32, 1, 1}, test::conv({2, 2}, {0, 0}), last, half});
    check({{2, 16, 12, 14}, {24, 16, 4, 2}, test::conv({4, 2}, {0, 0}), planar, half});
    check({{2, 8, 21, 20}, {9, 8, 3, 3}, test::conv({1, 1}, {0, 0}), last, bfloat});   // all taps inside
    check({{1, 16, 15, 16, 17}, {5, 16, 3, 3, 3}, test::conv({1, 1, 1}, {1, 1, 1}), last, half});
    check({{2, 24, 29}, {32, 24, 5}, test::conv({1}, {2}), planar, half});
    check({{2, 3, 30, 20}, {8, 3, 3, 3}, test::conv({1, 1}, {5, 4}), planar, half});   // outputs that see nothing
    check({{2, 33, 16, 16}, {8, 33, 2, 2}, test::conv({1, 1}, {0, 1}, {3, 2}), planar, half});
    ConvOptions uneven = test::conv({1, 1}, {2, 0});
    uneven.pad_end = {0, 1};
    check({{1, 16, 25, 16}, {32, 16, 3, 3}, uneven, last, half});
}

// Images between zeros, in lines or as one, and by whatever else an engine has: paddings, strides, dilation, groups.
TEST_P(ConvMatrix, WeightGradientsOfWhatIsNotFinite)
{
    const auto planar = Layout::contiguous, last = Layout::channels_last;
    const auto half = DataType::float16, bfloat = DataType::bfloat16;
    check_not_finite({{3, 32, 7, 7}, {40, 32, 3, 3}, test::conv({1, 1}, {1, 1}), planar, half});
    if (queue().device().platform_name.find("Portable") != std::string::npos)   // its compiler: half a minute for each
        return;
    check_not_finite({{2, 40, 17, 18}, {48, 20, 3, 2}, test::conv({2, 3}, {2, 1}, {2, 3}, 2), last, bfloat});
    check_not_finite({{3, 32, 12, 13}, {40, 32, 3, 3}, test::conv({1, 1}, {1, 1}), last, bfloat});
    check_not_finite({{4, 64, 11, 7}, {64, 32, 3, 3}, test::conv({2, 1}, {1, 1}, {1, 1}, 2), last, half});
    check_not_finite({{2, 32, 21, 20}, {34, 32, 3, 3}, test::conv({1, 1}, {0, 0}), planar, bfloat});
    check_not_finite({{2, 48, 29}, {32, 48, 5}, test::conv({1}, {2}), planar, half});
    ConvOptions uneven = test::conv({1, 1}, {2, 0});
    uneven.pad_end = {0, 1};
    check_not_finite({{6, 32, 6, 7}, {32, 32, 3, 3}, uneven, planar, bfloat});
    check_not_finite({{2, 32, 25, 16}, {32, 32, 3, 3}, uneven, last, half});
}

// Taps of whole slabs, which most networks have; by mma with slabs that are copied past registers, too, and read there
// by warpgroups.
TEST_P(ConvMatrix, WholeTaps)
{
    if (GetParam() == std::string("emulated_dpas16"))
        GTEST_SKIP() << "these it reads in blocks";
    const auto check_all = [](const char* implementation, bool weight_too) {
        const auto one = [&](const Dims& x, const Dims& w, const ConvOptions& options, Layout layout, DataType type,
                             bool all = false) {
            check({x, w, options, layout, type, implementation, weight_too}, all);
        };
        const auto planar = Layout::contiguous, last = Layout::channels_last;
        const auto half = DataType::float16, bfloat = DataType::bfloat16;
        one({2, 32, 7, 9}, {40, 32, 3, 3}, test::conv({1, 1}, {1, 1}), last, bfloat, true);
        one({1, 128, 9, 8}, {36, 64, 3, 2}, test::conv({2, 1}, {1, 2}, {1, 2}, 2), planar, half);
        // Several pairs of slabs in a tap, and one tap alone.
        one({1, 128, 4, 5}, {16, 128, 2, 2}, test::conv({1, 1}, {1, 1}), last, half);
        one({1, 192, 7, 5}, {24, 192, 1, 1}, test::conv({2, 2}, {0, 0}), last, half);
    };
    check_all("gpu_matrix", true);
    if (engine.engine == detail::MatrixEngine::mma) {
        for (const char* stages : {"gpu_matrix:stages=1", "gpu_matrix:stages=2"}) {
            SCOPED_TRACE(stages);
            prefer_implementation("conv", stages);
            check_all("", false);
        }
    }
}

// Every tile of the engine, pixels as rows and as columns; weight gradients by those that suit them.
TEST_P(ConvMatrix, EveryTile)
{
    if (queue().device().platform_name.find("Portable") != std::string::npos)
        GTEST_SKIP() << "its compiler takes minutes";
    for (std::size_t tile = 0; tile < detail::matrix_tiles(engine.engine).size(); ++tile) {
        const detail::RatedTile& rated = detail::matrix_tiles(engine.engine)[tile];
        if (!detail::tile_fits(engine, rated.tile, queue().device()))
            continue;
        // More channels, and taps that are neighbours, dpas16 reads in blocks, without slabs.
        const bool few = engine.engine == detail::MatrixEngine::dpas16;
        const std::int64_t in = few ? 8 : 32, out = few ? 7 : 72;
        const auto options = few ? test::conv({1, 1}, {2, 2}, {2, 2}) : test::conv({1, 1}, {1, 1});
        const bool suits_weight = detail::tile_suits(engine.engine, rated.tile, {72, 288, 1, false, false});
        for (const bool staged : {false, true}) {
            if (staged && engine.engine != detail::MatrixEngine::mma)
                continue;
            const std::string implementation =
                "gpu_matrix:tile=" + std::to_string(tile) + (staged ? ":stages=1" : "");
            SCOPED_TRACE(implementation);
            prefer_implementation("conv", implementation);
            for (const Layout layout : {Layout::channels_last, Layout::contiguous})
                check({{2, in, 10, 9}, {out, in, 3, 3}, options, layout, DataType::float16, "",
                       suits_weight && !staged});
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, ConvMatrix, clprim::test::matrix_engines(), clprim::test::name_of_engine);

// A device without an engine computes as before, unless it is asked for the emulation.
TEST(ConvMatrixChoice, IsNotEmulatedUnasked)
{
    const Device& device = queue().device();
    if (device.kind != DeviceKind::gpu || !detail::matrix_engine(device, "").emulated)
        GTEST_SKIP() << "for GPUs without a matrix engine";
    conv::Call call;
    call.dtype = DataType::float16;
    call.problem.in_channels = call.problem.out_channels = 64;
    call.problem.in[2] = call.problem.out[2] = 4096;
    EXPECT_TRUE(conv::rejects_gpu_matrix(call, device) || conv::gpu_matrix_advises_against(call, device));
}
