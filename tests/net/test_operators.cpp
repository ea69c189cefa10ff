// Results of operators against their definitions in double, in float32, float16 and bfloat16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "net/net_values.hpp"

namespace {

using namespace clprim;
using test::at;
using test::each;
using test::Values;

double tolerance(DataType type) { return type == DataType::float16 ? 4e-3 : type == DataType::bfloat16 ? 3e-2 : 1e-5; }

void expect_near(const Values& found, const Values& expected, DataType type, const std::string& what)
{
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], tolerance(type) * std::max(1.0, std::abs(expected[i])))
            << what << "[" << i << "]";
}

struct Spatial {
    Dims x, kernel, stride, dilate, begin, end;
};
const Spatial spatial_cases[] = {
    {{2, 4, 9}, {4}, {2}, {1}, {0}, {3}},
    {{2, 4, 7, 6}, {3, 2}, {2, 1}, {1, 2}, {2, 0}, {1, 1}},
    {{1, 4, 4, 5, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 1}, {0, 2, 1}, {1, 1, 0}},
};
const DataType types[] = {DataType::float32, DataType::float16, DataType::bfloat16};

// Sum of f(tap, position in x) over the taps of output position p that lie inside of x.
void each_tap(const Spatial& c, const Dims& p, const std::function<void(const Dims& tap, const Dims& position)>& f)
{
    each(c.kernel, [&](const Dims& tap) {
        Dims position(c.kernel.size(), 0);
        for (std::size_t i = 0; i < tap.size(); ++i) {
            position[i] = p[i] * c.stride[i] - c.begin[i] + tap[i] * c.dilate[i];
            if (position[i] < 0 || position[i] >= c.x[2 + i])
                return;
        }
        f(tap, position);
    });
}

Dims with(std::int64_t a, std::int64_t b, const Dims& rest)
{
    Dims all{a, b};
    for (const std::int64_t v : rest)
        all.push_back(v);
    return all;
}

Options options_of(const Spatial& c)
{
    Options options;
    options.set("kernel", c.kernel)
        .set("stride", c.stride)
        .set("pad", c.begin)
        .set("pad_end", c.end)
        .set("dilate", c.dilate);
    return options;
}

TEST(Operators, ConvolutionWithAsymmetricPaddingInOneToThreeDimensions)
{
    for (const Spatial& c : spatial_cases)
        for (const DataType type : types) {
            const std::string name = "Convolution" + std::to_string(c.kernel.size()) + "D";
            Options options = options_of(c);
            options.set("channels_out", std::int64_t(6))
                .set("groups", std::int64_t(2))
                .set("activation", std::string_view("relu6"));
            test::Single single(name, options.json(), {{c.x, type}}, NetMode::predict);
            single.set("x0", test::random_values(c.x.product(), 1));
            const Values x = test::read(single.net.queue(), single.net.tensor("x0"));
            const Dims ws = with(6, 2, c.kernel);
            single.set_parameter(0, test::random_values(ws.product(), 2));
            single.set_parameter(1, test::random_values(6, 3));
            const Values w = test::read(single.net.queue(), single.net.parameter("op.0"));
            const Values b = test::read(single.net.queue(), single.net.parameter("op.1"));
            const Dims ys = single.net.spec("y").shape;
            for (std::size_t i = 0; i < c.kernel.size(); ++i)
                EXPECT_EQ(ys[2 + i],
                          (c.x[2 + i] + c.begin[i] + c.end[i] - c.dilate[i] * (c.kernel[i] - 1) - 1) / c.stride[i] + 1);
            Values expected;
            each(ys, [&](const Dims& p) {
                double sum = b[static_cast<std::size_t>(p[1])];
                const Dims place(std::span<const std::int64_t>(p).subspan(2));
                each_tap(c, place, [&](const Dims& tap, const Dims& position) {
                    for (std::int64_t k = 0; k < 2; ++k)
                        sum += at(w, ws, with(p[1], k, tap)) * at(x, c.x, with(p[0], p[1] / 3 * 2 + k, position));
                });
                expected.push_back(std::clamp(sum, 0.0, 6.0));
            });
            expect_near(single.forward(), expected, type, name);
        }
}

TEST(Operators, PoolingWithAsymmetricPaddingInOneToThreeDimensions)
{
    for (Spatial c : spatial_cases)
        for (const DataType type : types)
            for (const std::string kind : {"max", "avg", "avg with padding"}) {
                if (kind != "max")
                    c.dilate = Dims(c.kernel.size(), 1);
                for (std::size_t i = 0; i < c.kernel.size(); ++i) {   // less than the window
                    c.begin[i] = std::min(c.begin[i], c.kernel[i] - 1);
                    c.end[i] = std::min(c.end[i], c.kernel[i] - 1);
                }
                Options options = options_of(c);
                if (kind != "max")
                    options = Options()
                                  .set("mode", std::string_view("avg"))
                                  .set("kernel", c.kernel)
                                  .set("stride", c.stride)
                                  .set("pad", c.begin)
                                  .set("pad_end", c.end)
                                  .set("count_include_pad", kind != "avg");
                test::Single single("Pooling" + std::to_string(c.kernel.size()) + "D", options.json(), {{c.x, type}},
                                    NetMode::predict);
                single.set("x0", test::random_values(c.x.product(), 1));
                const Values x = test::read(single.net.queue(), single.net.tensor("x0"));
                Values expected;
                each(single.net.spec("y").shape, [&](const Dims& p) {
                    double largest = -1e30, sum = 0, inside = 0, window = 1;
                    const Dims place(std::span<const std::int64_t>(p).subspan(2));
                    each_tap(c, place, [&](const Dims&, const Dims& position) {
                        const double v = at(x, c.x, with(p[0], p[1], position));
                        largest = std::max(largest, v);
                        sum += v;
                        ++inside;
                    });
                    for (std::size_t i = 0; i < c.kernel.size(); ++i) {
                        const std::int64_t begin = place[i] * c.stride[i] - c.begin[i];
                        window *= static_cast<double>(std::min(begin + c.kernel[i], c.x[2 + i] + c.end[i]) - begin);
                    }
                    expected.push_back(kind == "max" ? largest : sum / (kind == "avg" ? inside : window));
                });
                expect_near(single.forward(), expected, type, kind);
            }
}

TEST(Operators, AutoPadGivesTensorFlowsSizes)
{
    const auto shape = [](const std::string& type, const std::string& options, const Dims& x) {
        Net net(Context::get());
        net.add_input("x", {x});
        net.add_operator(make_operator(type, Options(options)), "op", {"x"}, {"y"});
        return net.spec("y").shape;
    };
    for (const std::string rule : {"same_upper", "same_lower"}) {
        const std::string pad = R"("auto_pad": ")" + rule + R"(", "kernel": [3, 4], "stride": [2, 3])";
        EXPECT_EQ(shape("Convolution2D", R"({"channels_out": 1, )" + pad + "}", {1, 1, 7, 10}), (Dims{1, 1, 4, 4}));
        EXPECT_EQ(shape("Pooling2D", "{" + pad + "}", {1, 1, 7, 10}), (Dims{1, 1, 4, 4}));
        EXPECT_EQ(shape("TransposedConvolution2D", R"({"channels_out": 1, )" + pad + "}", {1, 1, 4, 4}),
                  (Dims{1, 1, 8, 12}));
    }
    // The odd element of padding lies at the end for same_upper, at the begin for same_lower.
    for (const std::string rule : {"same_upper", "same_lower"}) {
        test::Single single("Pooling1D",
                            R"({"mode": "avg", "kernel": 2, "count_include_pad": true, "auto_pad": ")" + rule + "\"}",
                            {{{1, 1, 3}}}, NetMode::predict);
        single.set("x0", {2, 4, 6});
        EXPECT_EQ(single.forward(), rule == "same_upper" ? (Values{3, 5, 3}) : (Values{1, 3, 5}));
    }
}

// A simple operator: its result for each output element from the inputs' elements.
struct Simple {
    std::string type, options;
    double (*f)(double);
};
const Simple simple[] = {
    {"Activation", R"({"activation": "relu"})", [](double x) { return std::max(x, 0.0); }},
    {"Activation", R"({"activation": "tanh"})", [](double x) { return std::tanh(x); }},
    {"Activation", R"({"activation": "sigmoid"})", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"Activation", R"({"activation": "relu6"})", [](double x) { return std::clamp(x, 0.0, 6.0); }},
    {"Activation", "{}", [](double x) { return x; }},
    {"Abs", "{}", [](double x) { return std::abs(x); }},
    {"Threshold", R"({"threshold": 0.25})", [](double x) { return x > 0.25 ? 1.0 : 0.0; }},
    {"Hardtanh", R"({"min_val": -2, "max_val": 0.5})", [](double x) { return std::clamp(x, -2.0, 0.5); }},
    {"Pointwise", R"({"function": "gelu"})", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"Pointwise", R"({"function": "leaky_relu", "values": [0.1]})", [](double x) { return x > 0 ? x : 0.1 * x; }},
    {"Dropout", R"({"p": 0.9})", [](double x) { return x; }},   // in predict mode
    {"Flatten", "{}", [](double x) { return x; }},
    {"Reshape", R"({"dims": [-1, 3]})", [](double x) { return x; }},
};

TEST(Operators, ElementwiseOfOneInput)
{
    for (const Simple& c : simple)
        for (const DataType type : types) {
            test::Single single(c.type, c.options, {{{3, 4, 5}, type}}, NetMode::predict);
            single.set("x0", test::random_values(60, 1, -8, 8));
            Values expected;
            for (const double x : test::read(single.net.queue(), single.net.tensor("x0")))
                expected.push_back(c.f(x));
            expect_near(single.forward(), expected, type, c.type + c.options);
        }
}

TEST(Operators, TwoInputsBroadcast)
{
    const std::pair<std::string, double (*)(double, double)> operations[] = {
        {R"({"operation": "sum", "coef1": 2, "coef2": -3})", [](double a, double b) { return 2 * a - 3 * b; }},
        {R"({"operation": "prod", "coef1": 0.5, "activation": "relu"})",
         [](double a, double b) { return std::max(0.5 * a * b, 0.0); }},
        {R"({"operation": "max", "coef2": 0.5})", [](double a, double b) { return std::max(a, 0.5 * b); }},
    };
    for (const auto& operation : operations)
        for (const DataType type : types) {
            test::Single single("Elementwise", operation.first, {{{2, 1, 3}, type}, {{4, 1}, type}}, NetMode::predict);
            single.set("x0", test::random_values(6, 1));
            single.set("x1", test::random_values(4, 2));
            const Values a = test::read(single.net.queue(), single.net.tensor("x0")),
                         b = test::read(single.net.queue(), single.net.tensor("x1"));
            Values expected;
            each({2, 4, 3}, [&](const Dims& p) {
                expected.push_back(
                    operation.second(a[static_cast<std::size_t>(p[0] * 3 + p[2])], b[static_cast<std::size_t>(p[1])]));
            });
            expect_near(single.forward(), expected, type, operation.first);
        }
}

TEST(Operators, BatchNormInBothModes)
{
    const Dims shape{4, 3, 2, 5};
    for (const DataType type : types)
        for (const bool train : {true, false}) {
            test::Single single("BatchNorm", R"({"momentum": 0.25, "eps": 0.001})", {{shape, type}},
                                train ? NetMode::train : NetMode::predict);
            single.set("x0", test::random_values(shape.product(), 1, -1, 3));
            const Values x = test::read(single.net.queue(), single.net.tensor("x0"));
            const Values running[] = {{0.1, 0.2, 0.3}, {1, 2, 3}}, gamma = {1, -2, 0.5}, beta = {0, 1, 2};
            single.set_parameter(0, running[0]);
            single.set_parameter(1, running[1]);
            single.set_parameter(2, gamma);
            single.set_parameter(3, beta);
            Values expected(x.size()), means, variances;
            for (std::size_t c = 0; c < 3; ++c) {
                double mean = 0, variance = 0;
                const auto channel = [&](const auto& f) {
                    for (std::size_t i = 0; i < x.size(); ++i)
                        if (i / 10 % 3 == c)
                            f(i);
                };
                channel([&](std::size_t i) { mean += x[i] / 40; });
                channel([&](std::size_t i) { variance += (x[i] - mean) * (x[i] - mean) / 40; });
                means.push_back(0.75 * running[0][c] + 0.25 * mean);
                variances.push_back(0.75 * running[1][c] + 0.25 * variance * 40 / 39);
                if (!train)
                    mean = running[0][c], variance = running[1][c];
                channel([&](std::size_t i) {
                    expected[i] = (x[i] - mean) / std::sqrt(variance + 0.001) * gamma[c] + beta[c];
                });
            }
            expect_near(single.forward(), expected, type, "y");
            expect_near(test::read(single.net.queue(), single.net.parameter("op.0")), train ? means : running[0],
                        DataType::float32, "mean");
            expect_near(test::read(single.net.queue(), single.net.parameter("op.1")), train ? variances : running[1],
                        DataType::float32, "var");
        }
}

TEST(Operators, InnerProductSoftmaxAndLosses)
{
    for (const DataType type : types) {
        test::Single fc("InnerProduct", R"({"outputs": 4})", {{{3, 2, 5}, type}}, NetMode::predict);
        fc.set("x0", test::random_values(30, 1));
        fc.set_parameter(0, test::random_values(40, 2));
        fc.set_parameter(1, test::random_values(4, 3));
        const Values x = test::read(fc.net.queue(), fc.net.tensor("x0")),
                     w = test::read(fc.net.queue(), fc.net.parameter("op.0")),
                     b = test::read(fc.net.queue(), fc.net.parameter("op.1"));
        Values y;
        each({3, 4}, [&](const Dims& p) {
            double sum = b[static_cast<std::size_t>(p[1])];
            for (std::int64_t k = 0; k < 10; ++k)
                sum += x[static_cast<std::size_t>(p[0] * 10 + k)] * w[static_cast<std::size_t>(p[1] * 10 + k)];
            y.push_back(sum);
        });
        expect_near(fc.forward(), y, type, "InnerProduct");

        const Values logits = test::random_values(12, 4, -3, 3), labels = {2, 0, 3};
        test::Single softmax("Softmax", "{}", {{{3, 4}, type}}, NetMode::predict),
            log("Softmax", R"({"log": true})", {{{3, 4}, type}}, NetMode::predict);
        test::Single loss("SoftmaxWithLoss", "{}", {{{3, 4}, type}, {{3}, DataType::float32}}, NetMode::predict);
        test::Single nll("NLLLoss", R"({"reduce": "none"})", {{{3, 4}, type}, {{3, 1}, DataType::int32}},
                         NetMode::predict);
        for (test::Single* single : {&softmax, &log, &loss, &nll})
            single->set("x0", logits);
        loss.set("x1", labels);
        nll.set("x1", labels);
        const Values in = test::read(softmax.net.queue(), softmax.net.tensor("x0"));
        Values probability, logarithm, picked;
        double mean = 0;
        for (std::size_t row = 0; row < 3; ++row) {
            double sum = 0;
            for (std::size_t k = 0; k < 4; ++k)
                sum += std::exp(in[row * 4 + k]);
            for (std::size_t k = 0; k < 4; ++k) {
                probability.push_back(std::exp(in[row * 4 + k]) / sum);
                logarithm.push_back(in[row * 4 + k] - std::log(sum));
            }
            mean -= logarithm[row * 4 + static_cast<std::size_t>(labels[row])] / 3;
            picked.push_back(-in[row * 4 + static_cast<std::size_t>(labels[row])]);
        }
        expect_near(softmax.forward(), probability, type, "Softmax");
        expect_near(log.forward(), logarithm, type, "log Softmax");
        expect_near(loss.forward(), {mean}, type, "SoftmaxWithLoss");
        expect_near(nll.forward(), picked, type, "NLLLoss");

        test::Single mse("MSELoss", "{}", {{{3, 4}, type}, {{3, 4}, type}}, NetMode::predict);
        mse.set("x0", logits);
        mse.set("x1", test::random_values(12, 5));
        const Values target = test::read(mse.net.queue(), mse.net.tensor("x1"));
        double squares = 0;
        for (std::size_t i = 0; i < 12; ++i)
            squares += (in[i] - target[i]) * (in[i] - target[i]) / 12;
        expect_near(mse.forward(), {squares}, type, "MSELoss");
    }
}

TEST(Operators, ConcatSliceReductionAndInterpolation)
{
    for (const DataType type : types) {
        test::Single concat("Concat", "{}", {{{2, 1, 2}, type}, {{2, 3, 2}, type}}, NetMode::predict);
        concat.set("x0", {1, 2, 3, 4});
        concat.set("x1", {10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25});
        EXPECT_EQ(concat.forward(), (Values{1, 2, 10, 11, 12, 13, 14, 15, 3, 4, 20, 21, 22, 23, 24, 25}));
        test::Single slice("Slice", R"({"begin": 1, "end": 3})", {{{2, 4}, type}}, NetMode::predict);
        slice.set("x0", {0, 1, 2, 3, 4, 5, 6, 7});
        EXPECT_EQ(slice.forward(), (Values{1, 2, 5, 6}));
        const std::pair<const char*, Values> sums[] = {
            {R"({"dims": [0, 2]})", {10, 26}},
            {R"({"method": "mean", "start_axis": 1, "keep_dim": false})", {2.5, 6.5}},
            {R"({"method": "sumsq", "output_scale": 0.5})", {102}},
            {R"({"method": "abssum", "dims": [-1]})", {1, 5, 9, 13, 0, 0, 0, 8}}};
        for (const auto& [options, expected] : sums) {
            const bool small = std::string(options).find("abssum") != std::string::npos;
            test::Single sum("Reduction", options, {{small ? Dims{8, 1} : Dims{2, 2, 2}, type}}, NetMode::predict);
            sum.set("x0", small ? Values{-1, 5, -9, 13, 0, 0, 0, -8} : Values{1, 2, 5, 6, 3, 4, 7, 8});
            if (!small && std::string(options).find("mean") != std::string::npos)
                sum.set("x0", {1, 2, 3, 4, 5, 6, 7, 8});
            EXPECT_EQ(sum.forward(), expected) << options;
        }
        test::Single nearest("Interpolation", R"({"method": "nearest", "scale_y": 1, "scale_x": 2})",
                             {{{1, 1, 1, 3}, type}}, NetMode::predict);
        nearest.set("x0", {1, 2, 3});
        EXPECT_EQ(nearest.forward(), (Values{1, 1, 2, 2, 3, 3}));
        test::Single corners("Interpolation",
                             R"({"method": "bilinear", "out_h": 1, "out_w": 5, "align_corners": true})",
                             {{{1, 1, 1, 3}, type}}, NetMode::predict);
        corners.set("x0", {1, 2, 4});
        EXPECT_EQ(corners.forward(), (Values{1, 1.5, 2, 3, 4}));
    }
}

TEST(Operators, DropoutKeepsTheExpectedShareAndItsMask)
{
    test::Single single("Dropout", R"({"p": 0.25})", {{{100, 100}}});
    single.set("x0", Values(10000, 3));
    const Values y = single.forward();
    single.backward(Values(10000, 1));
    const Values dx = single.gradient("x0");
    double kept = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_TRUE(y[i] == 0 || std::abs(y[i] - 4) < 1e-6);
        ASSERT_NEAR(dx[i], y[i] / 3, 1e-6);
        kept += y[i] != 0;
    }
    EXPECT_NEAR(kept / 10000, 0.75, 0.03);
    EXPECT_NE(single.forward(), y);
}

}  // namespace
