// Elementwise kernels against plain loops in double.
#include <clprim/pointwise.hpp>

#include <cmath>
#include <functional>
#include <numeric>

#include <clprim/context.hpp>
#include <gtest/gtest.h>

using namespace clprim;

namespace {

Context& context() { return Context::get(0); }
Queue& queue() { return context().queue(); }

Tensor device(const std::vector<float>& values, const Dims& shape)
{
    Tensor t = context().empty(shape, DataType::float32, queue());
    queue().write(*t.memory, 0, values.data(), values.size() * sizeof(float));
    return t;
}

std::vector<float> host(const Tensor& t)
{
    std::vector<float> values(t.memory->requested / sizeof(float));
    queue().read(*t.memory, 0, values.data(), values.size() * sizeof(float));
    return values;
}

std::vector<float> ramp(std::size_t n)
{
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i)
        values[i] = std::sin(0.37f * static_cast<float>(i)) * 3;
    return values;
}

}  // namespace

TEST(Pointwise, EveryFloatRowCompiles)
{
    Tensor x = device(ramp(8), {8}), y = context().empty({8}, DataType::float32, queue());
    for (const PointwiseRow& row : pointwise_rows()) {
        std::string code = row.code ? row.code : "";
        if (code.empty())
            continue;
        auto count = [&](char letter) {
            std::size_t n = 0;
            while (code.find(std::string{letter, static_cast<char>('0' + n)}) != std::string::npos)
                ++n;
            return n;
        };
        std::vector<Input> inputs(count('x'), Input(x));
        std::vector<Tensor> outputs(count('y'), y);
        std::vector<Scalar> scalars(count('w'), Scalar(0.5));
        DataType common = DataType::float32;
        if (!(row.accepts & floating)) {
            common = DataType::int32;
            for (Input& input : inputs)
                input.dtype = input.tensor.dtype = common;
        }
        EXPECT_NO_THROW(pointwise(queue(), row, {inputs, outputs, scalars, common})) << row.name;
    }
    EXPECT_THROW(queue().finish(), Error);   // the first element is 0, and integers were divided by it
    queue().finish();
}

TEST(Pointwise, BroadcastsAndStrides)
{
    // [5, 1, 70] + [4, 1], rows; then the same with a transposed output, general.
    std::vector<float> a = ramp(350), b = ramp(4);
    Tensor x = device(a, {5, 1, 70}), z = device(b, {4, 1}),
           y = context().empty({5, 4, 70}, DataType::float32, queue());
    pointwise(queue(), std::array{x, z}, std::array{y}, std::array{Scalar(2.0)}, "y0 = x0 - w0 * x1;");
    std::vector<float> got = host(y);
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 4; ++j)
            for (int k = 0; k < 70; ++k)
                EXPECT_FLOAT_EQ(got[(i * 4 + j) * 70 + k], a[i * 70 + k] - 2 * b[j]);
    Tensor t = context().empty({70, 5, 4}, DataType::float32, queue());
    pointwise(queue(), std::array{x, z}, std::array{t.permute({1, 2, 0})}, std::array{Scalar(2.0)},
              "y0 = x0 - w0 * x1;");
    got = host(t);
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 4; ++j)
            for (int k = 0; k < 70; ++k)
                EXPECT_FLOAT_EQ(got[(k * 5 + i) * 4 + j], a[i * 70 + k] - 2 * b[j]);
}

TEST(Pointwise, RowsOfStridedInputs)
{
    // [6, 5, 70]: columns of one input, every third element of another, a row's one element of a third.
    std::vector<float> a = ramp(70 * 30), b = ramp(6 * 5 * 210), c = ramp(30);
    Tensor x = device(a, {70, 6, 5}).permute({1, 2, 0}), z = device(b, {6, 5, 210}).slice(2, 2, 210),
           w = device(c, {6, 5, 1}), y = context().empty({6, 5, 70}, DataType::float32, queue());
    z.shape[2] = 70;
    z.strides[2] = 3;
    pointwise(queue(), std::array{x, z, w}, std::array{y}, {}, "y0 = x0 - 2 * x1 + 4 * x2;");
    const std::vector<float> got = host(y);
    for (int i = 0; i < 30; ++i)
        for (int k = 0; k < 70; ++k)
            EXPECT_FLOAT_EQ(got[i * 70 + k], a[k * 30 + i] - 2 * b[(i * 70 + k) * 3 + 2] + 4 * c[i]) << i << ' ' << k;
}

TEST(Pointwise, RespectsOffsetsOfViews)
{
    std::vector<float> a = ramp(100);
    Tensor x = device(a, {100}), y = device(std::vector<float>(100, 7), {100});
    pointwise(queue(), std::array{x.slice(0, 10, 30)}, std::array{y.slice(0, 50, 70)}, {}, "y0 = exp(x0);");
    std::vector<float> got = host(y);
    for (int i = 0; i < 100; ++i)
        EXPECT_NEAR(got[i], i >= 50 && i < 70 ? std::exp(a[i - 40]) : 7, 1e-5);
}

TEST(Pointwise, SeveralOutputsWithOwnTypes)
{
    std::vector<float> a = ramp(33);
    Tensor x = device(a, {33}), y = context().empty({33}, DataType::float32, queue());
    Tensor i = context().empty({33}, DataType::int32, queue());
    pointwise(queue(), std::array{x}, std::array{y, i}, std::array{Scalar(3)}, "y0 = x0 * w0; y1 = x0 > 0 ? 4 : -4;",
              std::array{DataType::int32});
    std::vector<float> got = host(y);
    std::vector<int> whole(33);
    queue().read(*i.memory, 0, whole.data(), 33 * 4);
    for (int k = 0; k < 33; ++k) {
        EXPECT_FLOAT_EQ(got[k], a[k] * 3);
        EXPECT_EQ(whole[k], a[k] > 0 ? 4 : -4);
    }
}

TEST(Pointwise, RejectsShapesThatDoNotBroadcast)
{
    Tensor x = device(ramp(6), {2, 3}), y = context().empty({3, 2}, DataType::float32, queue());
    EXPECT_THROW(pointwise(queue(), std::array{x}, std::array{y}, {}, "y0 = x0;"), InvalidArgument);
    EXPECT_THROW(pointwise_row("no_such_row"), InvalidArgument);
}
