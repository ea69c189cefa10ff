// Convolution by a CPU's vectors of bfloat16 (AVX-512 BF16): what comes out is the exact sum rounded once.
#include <cmath>

#include "kernels/conv_exact.hpp"

using namespace clprim;
using namespace clprim::test;

namespace {

// What a CPU's vectors of bfloat16 are tried with.
void check_vectors(Layout layout)
{
    for (ExactCase c : {ExactCase{{2, 5, 9, 11}, {70, 5, 3, 3}, conv({1, 1}, {1, 1}), layout, DataType::bfloat16},
                   {{2, 16, 8, 12}, {24, 16, 3, 3}, conv({2, 2}, {1, 1}), layout, DataType::bfloat16},
                   {{1, 40, 17, 18}, {48, 20, 3, 2}, conv({2, 3}, {2, 1}, {2, 3}, 2), layout, DataType::bfloat16},
                   {{2, 450, 7, 9}, {33, 450, 1, 1}, conv({1, 1}, {0, 0}), layout, DataType::bfloat16},
                   {{1, 16, 7, 7}, {72, 16, 1, 1}, conv({2, 2}, {0, 0}), layout, DataType::bfloat16},
                   {{1, 3, 5, 6, 7}, {5, 3, 3, 3, 3}, conv({1, 1, 1}, {1, 1, 1}), layout, DataType::bfloat16},
                   {{1, 1, 3, 3}, {1, 1, 1, 1}, conv({1, 1}, {0, 0}), layout, DataType::bfloat16}}) {
        c.implementation = "cpu_bfloat16";
        c.weight_too = false;   // it has none
        check(c, true);
    }
}

// The same of pixels that are read where they lie or, planar, copied: parts of vectors and tiles, groups, three
// dimensions and one, steps of the source that share lines of a cache.
void check_rows(Layout layout)
{
    constexpr DataType kind = DataType::bfloat16;
    for (ExactCase c : {ExactCase{{2, 16, 9, 11}, {76, 16, 3, 3}, conv({1, 1}, {1, 1}), layout, kind},
                   {{2, 16, 8, 12}, {24, 16, 3, 3}, conv({2, 2}, {1, 1}), layout, kind},
                   {{1, 40, 17, 18}, {48, 20, 3, 2}, conv({2, 3}, {2, 1}, {2, 3}, 2), layout, kind},
                   {{2, 452, 7, 9}, {36, 452, 1, 1}, conv({1, 1}, {0, 0}), layout, kind},
                   {{1, 2048, 5, 5}, {128, 2048, 1, 1}, conv({1, 1}, {0, 0}), layout, kind},
                   {{2, 64, 1, 1}, {16, 64, 1, 1}, conv({1, 1}, {0, 0}), layout, kind},
                   {{2, 8, 40}, {12, 8, 3}, conv({1}, {1}), layout, kind},
                   {{1, 4, 3, 6, 7}, {8, 4, 3, 3, 3}, conv({1, 2, 1}, {1, 1, 1}), layout, kind}}) {
        c.implementation = "cpu_channels_bfloat16";
        c.weight_too = false;
        check(c, true);
    }
}

// Forward passes of images, whatever their layout.
void check_images()
{
    for (const std::int64_t channels : {2, 3})
        for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
            std::mt19937 random(7);
            const Dims w_shape{24, channels, 7, 5}, x_shape{2, channels, 20, 23};
            ConvOptions options = conv({2, 2}, {3, 1});
            const Dims y_shape = conv_output_shape(x_shape, w_shape, options);
            Host x(x_shape, layout, &random), w(w_shape, layout, &random), y(y_shape, Layout::channels_last, nullptr);
            products({&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
                y.values[yi] += x.values[xi] * w.values[wi];
            });
            Host nan = y;
            fill_nan(nan);
            const Tensor result = upload(nan, DataType::bfloat16);
            options.implementation = "cpu_channels_bfloat16";
            conv_forward(queue(), upload(x, DataType::bfloat16), upload(w, DataType::bfloat16), Tensor(), result,
                         options);
            compare(result, y, "image");
        }
}

// Infinities and NaN reach the pixels that read them and no others; NaN stays through relu.
void check_rows_not_finite()
{
    std::mt19937 random(11);
    const Dims x_shape{1, 4, 9, 10}, w_shape{32, 4, 3, 3};
    ConvOptions options = conv({1, 1}, {1, 1});
    Host x(x_shape, Layout::channels_last, &random), w(w_shape, Layout::contiguous, &random),
        y(x_shape, Layout::channels_last, nullptr);
    x.values[4 * 33 + 1] = NAN;
    x.values[4 * 57] = INFINITY;
    x.values[4 * 89 + 3] = -INFINITY;
    y = Host({1, 32, 9, 10}, Layout::channels_last, nullptr);
    products({&x, &w, &y}, options, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
        y.values[yi] += x.values[xi] * w.values[wi];
    });
    for (double& v : y.values)
        v = v < 0 ? 0 : v;
    Host nan = y;
    fill_nan(nan);
    const Tensor result = upload(nan, DataType::bfloat16);
    options.implementation = "cpu_channels_bfloat16";
    options.activation = Activation::relu;
    conv_forward(queue(), upload(x, DataType::bfloat16), upload(w, DataType::bfloat16), Tensor(), result, options);
    compare(result, y, "not finite");
}

}  // namespace

TEST(ConvBfloat16, OfAllKinds)
{
    try {
        check_vectors(Layout::contiguous);
    } catch (const NotSupported&) {
        GTEST_SKIP() << "for CPUs with AVX-512 BF16 and without AMX";
    }
    check_vectors(Layout::channels_last);
}

TEST(ConvBfloat16, OfRowsInPlace)
{
    try {
        check_rows(Layout::channels_last);
    } catch (const NotSupported&) {
        GTEST_SKIP() << "for CPUs with AVX-512 BF16 and without AMX";
    }
    check_rows(Layout::contiguous);
    check_images();
    check_rows_not_finite();
}
