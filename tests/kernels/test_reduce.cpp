// Reductions against plain loops in double.
#include <clprim/reduce.hpp>

#include <cmath>
#include <limits>

#include <clprim/context.hpp>
#include <gtest/gtest.h>

using namespace clprim;

namespace {

Context& context() { return Context::get(0); }
Queue& queue() { return context().queue(); }

template <class T>
Tensor device(const std::vector<T>& values, const Dims& shape, DataType dtype = DataType::float32)
{
    Tensor t = context().empty(shape, dtype, queue());
    queue().write(*t.memory, 0, values.data(), values.size() * sizeof(T));
    return t;
}

template <class T>
std::vector<T> host(const Tensor& t)
{
    std::vector<T> values(static_cast<std::size_t>(t.numel()));
    queue().read(*t.memory, 0, values.data(), values.size() * sizeof(T));
    return values;
}

std::vector<float> ramp(std::size_t n)
{
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i)
        values[i] = std::sin(0.37f * static_cast<float>(i)) * 3 + 1;
    return values;
}

Tensor run(const char* row, const Tensor& x, const Dims& out, DataType dtype = DataType::float32,
           std::vector<Scalar> scalars = {}, DataType common = DataType::float32)
{
    Tensor y = context().empty(out, dtype, queue());
    reduce(queue(), reduce_row(row), {std::array{Input(x)}, std::array{y}, scalars, common});
    return y;
}

}  // namespace

// The published example: batch statistics, sums of x and x * x over all axes but the channel, in one pass.
TEST(Reduce, ChannelSumsInOnePass)
{
    const int N = 3, C = 5, H = 17, W = 9;
    std::vector<float> a = ramp(N * C * H * W);
    Tensor nchw = device(a, {N, C, H, W}), nhwc = device(a, {N, H, W, C}).permute({0, 3, 1, 2});
    for (const Tensor& x : {nchw, nhwc}) {
        Tensor sum = context().empty({1, C, 1, 1}, DataType::float32, queue());
        Tensor squares = context().empty({1, C, 1, 1}, DataType::float32, queue());
        pointwise_reduce(queue(), std::array{x}, std::array{sum, squares}, {},
                         {.state = "float sum; float squares;",
                          .init = "s.sum = 0; s.squares = 0;",
                          .step = "s.sum += x0; s.squares += x0 * x0;",
                          .combine = "s.sum += other.sum; s.squares += other.squares;",
                          .finish = "y0 = s.sum; y1 = s.squares;"});
        std::vector<double> want(C), want_squares(C);
        for (int n = 0; n < N; ++n)
            for (int c = 0; c < C; ++c)
                for (int h = 0; h < H; ++h)
                    for (int w = 0; w < W; ++w) {
                        double v = a[n * x.stride(0) + c * x.stride(1) + h * x.stride(2) + w * x.stride(3)];
                        want[c] += v;
                        want_squares[c] += v * v;
                    }
        for (int c = 0; c < C; ++c) {
            EXPECT_NEAR(host<float>(sum)[c], want[c], 1e-5 * std::abs(want[c]) + 1e-4);
            EXPECT_NEAR(host<float>(squares)[c], want_squares[c], 1e-6 * want_squares[c]);
        }
    }
}

TEST(Reduce, EveryRowCompiles)
{
    Tensor floats = device(ramp(64), {64}), ints = context().empty({64}, DataType::int32, queue());
    for (const ReduceRow& row : reduce_rows()) {
        const Tensor& x = row.accepts & floating ? floats : ints;
        std::string finish(row.code.finish), step(row.code.step);
        std::vector<Tensor> outputs;
        for (int k = 0; k < 2; ++k)
            if (finish.find(k ? "y1" : "y0") != std::string::npos)
                outputs.push_back(context().empty(
                    {1}, row.result[k] == Result::index ? DataType::int64 : DataType::float32, queue()));
        std::vector<Scalar> scalars((finish + step).find("w0") != std::string::npos ? 1 : 0, Scalar(1.0));
        std::vector<Input> inputs(step.find("x2") != std::string::npos   ? 3
                                  : step.find("x1") != std::string::npos ? 2
                                                                         : 1,
                                  Input(x));
        EXPECT_NO_THROW(reduce(queue(), row, {inputs, outputs, scalars, x.dtype})) << row.name;
        if (row.reports)   // numbers beyond 1
            EXPECT_THROW(queue().finish(), Error) << row.name;
        else
            EXPECT_NO_THROW(queue().finish()) << row.name;
    }
}

TEST(Reduce, LongSumsKeepTheirPrecision)
{
    std::vector<float> a(1 << 20);
    double want = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        want += a[i] = 0.1f + 1e-3f * static_cast<float>(i % 7);
    Tensor x = device(a, {1 << 20});
    EXPECT_NEAR(host<float>(run("sum", x, {1}))[0], want, 1e-6 * want);
    EXPECT_NEAR(host<float>(run("sum", device(a, {1 << 19, 2}), {1, 2}))[1], want / 2, 2e-6 * want);
    // The same bits every time.
    EXPECT_EQ(host<float>(run("sum", x, {1})), host<float>(run("sum", x, {1})));
}

TEST(Reduce, RowsAndColumnsOfManyShapes)
{
    for (auto [rows, columns] :
         {std::pair{1, 1}, {3, 5}, {7, 1000}, {1000, 7}, {300, 33}, {2, 70000}, {70000, 2}, {1200, 20},
          {700, 40}, {9, 3000}, {5000, 70}, {33, 1500}}) {
        std::vector<float> a = ramp(static_cast<std::size_t>(rows) * columns);
        Tensor x = device(a, {rows, columns});
        std::vector<float> by_row = host<float>(run("sum", x, {rows, 1})),
                           by_column = host<float>(run("mean", x, {1, columns}));
        std::vector<double> row_sum(rows), column_sum(columns);
        for (int r = 0; r < rows; ++r)
            for (int c = 0; c < columns; ++c) {
                row_sum[r] += a[r * columns + c];
                column_sum[c] += a[r * columns + c];
            }
        for (int r = 0; r < rows; ++r)
            ASSERT_NEAR(by_row[r], row_sum[r], 1e-5 * std::abs(row_sum[r]) + 1e-4) << rows << " x " << columns;
        for (int c = 0; c < columns; ++c)
            ASSERT_NEAR(by_column[c], column_sum[c] / rows, 2e-5) << rows << " x " << columns;
    }
}

TEST(Reduce, VarianceOfShiftedData)
{
    std::vector<float> a(50000);
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        mean += a[i] = 1000 + std::sin(static_cast<float>(i));
    mean /= static_cast<double>(a.size());
    for (float v : a)
        squares += (v - mean) * (v - mean);
    float got = host<float>(run("var", device(a, {50000}), {1}, DataType::float32, {Scalar(1.0)}))[0];
    EXPECT_NEAR(got, squares / (static_cast<double>(a.size()) - 1), 1e-5);
}

TEST(Reduce, PositionsOfExtremesAndNaN)
{
    std::vector<float> a(40000, 1);
    a[777] = a[33000] = 5;
    Tensor x = device(a, {40000});
    EXPECT_EQ(host<std::int64_t>(run("argmax", x, {1}, DataType::int64))[0], 777);
    EXPECT_EQ(host<std::int64_t>(run("argmin", x, {1}, DataType::int64))[0], 0);
    a[900] = a[20000] = std::numeric_limits<float>::quiet_NaN();
    x = device(a, {40000});
    EXPECT_EQ(host<std::int64_t>(run("argmax", x, {1}, DataType::int64))[0], 900);
    EXPECT_EQ(host<std::int64_t>(run("argmin", x, {1}, DataType::int64))[0], 900);
    EXPECT_TRUE(std::isnan(host<float>(run("amax", x, {1}))[0]));
}

TEST(Reduce, ScalarsThatTheRowDoesNotUseChangeNothing)
{
    const Tensor x = device(std::vector<float>{3, 4}, {2}, DataType::float32);
    EXPECT_EQ(host<float>(run("norm2", x, {1}))[0], 5);
    EXPECT_EQ(host<float>(run("norm2", x, {1}, DataType::float32, {2.0}))[0], 5);
    EXPECT_EQ(host<float>(run("norm2", x, {1}))[0], 5);
}

TEST(Reduce, IntegersAreExactAndEmptyGivesTheIdentity)
{
    std::vector<std::int32_t> a(100001, 2147483647);
    Tensor x = device(a, {100001}, DataType::int32);
    EXPECT_EQ(host<std::int64_t>(run("sum", x, {1}, DataType::int64, {}, DataType::int64))[0], 100001LL * 2147483647);
    Tensor empty = context().empty({3, 0}, DataType::float32, queue());
    EXPECT_EQ(host<float>(run("sum", empty, {3, 1})), (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(host<float>(run("prod", empty, {3, 1})), (std::vector<float>{1, 1, 1}));
    EXPECT_NO_THROW(run("sum", empty, {1, 0}));
}
