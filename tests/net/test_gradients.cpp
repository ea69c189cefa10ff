// Backward of every operator against central differences of its forward, in inputs and parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "net/net_values.hpp"

namespace {

using namespace clprim;
using test::Values;

struct Case {
    std::string type, options;
    std::vector<Dims> inputs;
    double low = -1, high = 1;         // of the inputs' values
    std::vector<int> constants = {};   // inputs without gradient: integers below `classes`
    int classes = 3;
    double tolerance = 2e-3;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.type << ' ' << c.options; }

// Distinct values, no two nearer than a step of differences, in random order: maxima and kinks are not crossed.
Values spaced(std::int64_t count, unsigned seed, double low, double high)
{
    Values values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] =
            static_cast<float>(low + (high - low) * (static_cast<double>(i) + 0.5) / static_cast<double>(count));
    std::mt19937 random(seed);
    std::shuffle(values.begin(), values.end(), random);
    return values;
}

class Gradients : public testing::TestWithParam<Case> {};

TEST_P(Gradients, MatchCentralDifferences)
{
    const Case& c = GetParam();
    std::vector<TensorSpec> specs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        const bool constant = std::ranges::find(c.constants, static_cast<int>(i)) != c.constants.end();
        specs.push_back({c.inputs[i], constant ? DataType::int32 : DataType::float32});
    }
    test::Single single(c.type, c.options, specs);
    std::vector<Values> inputs, parameters;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const std::int64_t count = specs[i].shape.product();
        inputs.push_back(spaced(count, 10 + static_cast<unsigned>(i), c.low, c.high));
        if (specs[i].dtype == DataType::int32)
            for (std::size_t k = 0; k < inputs[i].size(); ++k)
                inputs[i][k] = static_cast<double>((k * 7 + 1) % static_cast<std::size_t>(c.classes));
        single.set(test::input_name(i), inputs[i]);
    }
    const auto names = single.net.parameter_names();
    single.net.initialize_parameters(1);
    for (std::size_t i = 0; i < names.size(); ++i) {
        parameters.push_back(
            test::random_values(single.net.parameter(names[i]).numel(), 30 + static_cast<unsigned>(i), 0.5, 1.5));
        single.set_parameter(static_cast<int>(i), parameters[i]);
    }
    const Values y = single.forward();
    const Values dy = test::random_values(static_cast<std::int64_t>(y.size()), 3);
    single.backward(dy);

    const auto objective = [&] {
        const Values values = single.forward();
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            sum += values[i] * dy[i];
        return sum;
    };
    const auto check = [&](Values values, const Values& gradient, const std::string& what, const auto& set) {
        ASSERT_EQ(values.size(), gradient.size());
        // A step smaller than half of the distance between values.
        const double step = std::min(1e-2, 0.4 * (c.high - c.low) / static_cast<double>(values.size()));
        for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 12) {
            const double at = values[i];
            values[i] = static_cast<float>(at + step);
            const double right = values[i];
            set(values);
            const double up = objective();
            values[i] = static_cast<float>(at - step);
            const double left = values[i];
            set(values);
            const double down = objective();
            values[i] = at;
            EXPECT_NEAR(gradient[i], (up - down) / (right - left), c.tolerance * std::max(1.0, std::abs(gradient[i])))
                << what << "[" << i << "]";
        }
        set(values);
    };
    std::vector<Values> input_gradients, parameter_gradients;
    for (std::size_t i = 0; i < specs.size(); ++i)
        input_gradients.push_back(specs[i].dtype == DataType::float32 &&
                                          single.net.spec(test::input_name(i)).dtype == DataType::float32
                                      ? single.gradient(test::input_name(i))
                                      : Values());
    for (std::size_t i = 0; i < names.size(); ++i)
        parameter_gradients.push_back(single.net.parameter_gradient(names[i]).defined()
                                          ? single.parameter_gradient(static_cast<int>(i))
                                          : Values());
    for (std::size_t i = 0; i < specs.size(); ++i)
        if (!input_gradients[i].empty())
            check(inputs[i], input_gradients[i], test::input_name(i),
                  [&](const Values& v) { single.set(test::input_name(i), v); });
    for (std::size_t i = 0; i < names.size(); ++i)
        if (!parameter_gradients[i].empty())
            check(parameters[i], parameter_gradients[i], names[i],
                  [&](const Values& v) { single.set_parameter(static_cast<int>(i), v); });
}

const Dims image{2, 4, 6, 5}, line{2, 4, 9}, volume{1, 2, 4, 5, 4}, matrix{3, 5};

INSTANTIATE_TEST_SUITE_P(
    Convolution, Gradients,
    testing::Values(
        Case{"Convolution2D", R"({"channels_out": 6, "kernel": 3, "pad": 1})", {image}},
        Case{"Convolution2D",
             R"({"channels_out": 6, "kernel": [3, 2], "stride": [2, 1], "pad": [1, 0], "pad_end": [2, 1],
                                  "dilate": [1, 2], "groups": 2, "bias": false})",
             {image}},
        Case{"Convolution2D",
             R"({"channels_out": 4, "kernel": 3, "stride": 2, "auto_pad": "same_upper", "groups": 4,
                                  "activation": "tanh"})",
             {image}},
        Case{"Convolution2D",
             R"({"channels_out": 4, "kernel": 4, "stride": 3, "auto_pad": "same_lower", "activation": "sigmoid"})",
             {image}},
        Case{"Convolution1D", R"({"channels_out": 3, "kernel": 4, "stride": 2, "pad": 0, "pad_end": 3})", {line}},
        Case{"Convolution3D",
             R"({"channels_out": 3, "kernel": [2, 3, 2], "pad": [1, 1, 0], "pad_end": [0, 1, 1]})",
             {volume}},
        Case{"TransposedConvolution2D",
             R"({"channels_out": 6, "kernel": 3, "stride": 2, "pad": 1, "output_pad": 1, "groups": 2})",
             {image}},
        Case{"TransposedConvolution2D",
             R"({"channels_out": 3, "kernel": [4, 3], "stride": [2, 3], "auto_pad": "same_lower"})",
             {image}},
        Case{"TransposedConvolution1D",
             R"({"channels_out": 3, "kernel": 4, "stride": 2, "pad": 1, "pad_end": 0})",
             {line}},
        Case{"TransposedConvolution3D", R"({"channels_out": 2, "kernel": 2, "stride": 2, "bias": false})", {volume}},
        Case{"InnerProduct", R"({"outputs": 7, "activation": "tanh"})", {{3, 2, 4}}},
        Case{"InnerProduct", R"({"outputs": 1, "bias": false})", {matrix}}));

INSTANTIATE_TEST_SUITE_P(
    Pooling, Gradients,
    testing::Values(
        Case{"Pooling2D", R"({"kernel": 3, "stride": 2, "pad": 1})", {image}},
        Case{"Pooling2D",
             R"({"kernel": [3, 2], "stride": 2, "pad": [0, 1], "pad_end": [2, 0], "ceil_mode": true})",
             {image}},
        Case{"Pooling2D", R"({"mode": "avg", "kernel": 3, "stride": 2, "pad": 1, "ceil_mode": true})", {image}},
        Case{"Pooling2D",
             R"({"mode": "avg", "kernel": [2, 3], "stride": [1, 2], "pad": [0, 1], "pad_end": [1, 2],
                                          "count_include_pad": true})",
             {image}},
        Case{"Pooling2D",
             R"({"mode": "avg", "kernel": 3, "stride": 2, "auto_pad": "same_upper", "count_include_pad": true})",
             {image}},
        Case{"Pooling1D", R"({"kernel": 2, "stride": 2, "dilate": 2})", {line}},
        Case{"Pooling3D", R"({"mode": "avg", "kernel": 2, "stride": [1, 2, 1]})", {volume}},
        Case{"GlobalPooling", R"({"mode": "max"})", {image}}, Case{"GlobalPooling", R"({"mode": "avg"})", {volume}}));

INSTANTIATE_TEST_SUITE_P(
    Normalization, Gradients,
    testing::Values(Case{"BatchNorm", "{}", {image}, -1, 2}, Case{"BatchNorm", R"({"affine": false})", {matrix}},
                    Case{"BatchNorm", R"({"use_global_stats": true, "eps": 0.01})", {volume}},
                    Case{"Softmax", "{}", {matrix}}, Case{"Softmax", R"({"log": true})", {{2, 3, 4}}},
                    Case{"Softmax", R"({"axis": -1})", {{2, 3, 4}}},
                    Case{"SoftmaxWithLoss", "{}", {{4, 3}, {4}}, -1, 1, {1}},
                    Case{"SoftmaxWithLoss", "{}", {{2, 3, 2, 2}, {2, 2, 2}}, -1, 1, {1}},
                    Case{"NLLLoss", "{}", {{4, 3}, {4}}, -1, 1, {1}},
                    Case{"NLLLoss", R"({"reduce": "sum"})", {{4, 3}, {4}}, -1, 1, {1}},
                    Case{"NLLLoss", R"({"reduce": "none"})", {{4, 3}, {4}}, -1, 1, {1}},
                    Case{"MSELoss", "{}", {matrix, matrix}}, Case{"MSELoss", R"({"reduce": "sum"})", {matrix, matrix}},
                    Case{"MSELoss", R"({"reduce": "none"})", {matrix, matrix}}));

INSTANTIATE_TEST_SUITE_P(
    Pointwise, Gradients,
    testing::Values(
        Case{"Activation", R"({"activation": "relu"})", {matrix}},
        Case{"Activation", R"({"activation": "tanh"})", {matrix}},
        Case{"Activation", R"({"activation": "sigmoid"})", {matrix}},
        Case{"Activation", R"({"activation": "relu6"})", {matrix}, -10.0, 10.0}, Case{"Activation", "{}", {matrix}},
        Case{"Hardtanh", R"({"min_val": -0.52, "max_val": 0.34})", {matrix}}, Case{"Abs", "{}", {matrix}},
        Case{"Elementwise", R"({"coef1": 2, "coef2": -0.5})", {matrix, matrix}},
        Case{"Elementwise", R"({"coef1": 2, "coef2": -0.5, "activation": "tanh"})", {{3, 1, 5}, {4, 1}}},
        Case{"Elementwise", R"({"operation": "prod", "coef1": 2, "coef2": 1.5})", {{2, 3, 4}, {3, 1}}},
        Case{"Elementwise", R"({"operation": "prod"})", {matrix, matrix}},
        Case{"Elementwise", R"({"operation": "max", "coef1": 2, "coef2": -2})", {{3, 4}, {2, 1, 4}}},
        Case{"Pointwise", R"({"function": "gelu"})", {matrix}}, Case{"Pointwise", R"({"function": "silu"})", {matrix}},
        Case{"Pointwise", R"({"function": "leaky_relu", "values": [0.2]})", {matrix}},
        Case{"Pointwise", R"({"function": "elu", "values": [1.5, 1, 1]})", {matrix}},
        Case{"Pointwise", R"({"function": "exp"})", {matrix}},
        Case{"Pointwise", R"({"function": "log"})", {matrix}, 0.5, 2},
        Case{"Pointwise", R"({"function": "sqrt"})", {matrix}, 0.5, 2},
        Case{"Pointwise", R"({"function": "square"})", {matrix}},
        Case{"Pointwise", R"({"function": "reciprocal"})", {matrix}, 0.5, 2},
        Case{"Pointwise", R"({"function": "sin"})", {matrix}}, Case{"Pointwise", R"({"function": "cos"})", {matrix}},
        Case{"Pointwise", R"({"function": "erf"})", {matrix}}, Case{"Pointwise", R"({"function": "neg"})", {matrix}}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, Gradients,
    testing::Values(
        Case{"Concat", "{}", {{2, 3, 4}, {2, 1, 4}, {2, 2, 4}}}, Case{"Concat", R"({"dim": -1})", {{2, 3}, {2, 2}}},
        Case{"Slice", R"({"begin": 1, "end": 3})", {{2, 4, 3}}}, Case{"Slice", R"({"dim": 0, "begin": -2})", {{4, 3}}},
        Case{"Flatten", "{}", {{2, 3, 4}}}, Case{"Squeeze", "{}", {{2, 1, 3, 1}}},
        Case{"Squeeze", R"({"dims": [-1]})", {{2, 1, 3, 1}}}, Case{"Reshape", R"({"dims": [0, -1, 2]})", {{2, 3, 4}}},
        Case{"Parameter", R"({"shape": [2, 3]})", {}},
        Case{"Reduction", R"({"method": "sum", "dims": [0, -1]})", {{2, 3, 4}}},
        Case{"Reduction", R"({"method": "mean", "start_axis": 1, "output_scale": 3, "keep_dim": false})", {{2, 3, 4}}},
        Case{"Reduction", R"({"method": "sumsq", "keep_dim": false})", {{2, 3, 4}}},
        Case{"Reduction", R"({"method": "abssum", "dims": [1]})", {{2, 3, 4}}},
        Case{"Interpolation", R"({"method": "bilinear", "out_h": 7, "out_w": 4})", {image}},
        Case{
            "Interpolation", R"({"method": "bilinear", "scale_y": 1.5, "scale_x": 2, "align_corners": true})", {image}},
        Case{"Interpolation", R"({"method": "nearest", "scale_y": 2, "scale_x": 0.6})", {image}},
        Case{"Interpolation", R"({"method": "nearest-exact", "out_h": 4, "out_w": 8})", {image}}));

// Offsets between 0.02 and 0.4 keep samples away from the kinks at whole positions.
INSTANTIATE_TEST_SUITE_P(Deformable, Gradients,
                         testing::Values(Case{"DeformConv2D",
                                              R"({"channels_out": 4, "kernel": 3, "pad": 1, "groups": 2})",
                                              {{1, 4, 5, 4}, {1, 18, 5, 4}},
                                              0.02,
                                              0.4,
                                              {},
                                              3,
                                              5e-3},
                                         Case{"DeformConv2D",
                                              R"({"channels_out": 2, "kernel": 2, "stride": 2, "offset_groups": 2})",
                                              {{1, 4, 6, 4}, {1, 16, 3, 2}, {1, 8, 3, 2}},
                                              0.02,
                                              0.4,
                                              {},
                                              3,
                                              5e-3}));

}  // namespace
