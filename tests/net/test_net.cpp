// Nets as a whole: building, modes, gradients against finite differences, memory, fusion, errors.
#include <clprim/solver.hpp>
#include <gtest/gtest.h>

#include <cmath>

#include "net/net_values.hpp"

namespace {

using namespace clprim;
using test::Values;

const std::string small_cnn = R"({
  "inputs": [{"name": "data", "shape": [4, 2, 8, 8]}, {"name": "label", "shape": [4], "dtype": "int"}],
  "outputs": ["prob", {"name": "loss", "loss_weight": 0.5}],
  "operators": [
    {"name": "conv1", "type": "Convolution2D", "inputs": ["data"], "outputs": ["conv1"],
     "options": {"channels_out": 6, "kernel": 3, "pad": 1, "bias": false}},
    {"name": "bn1", "type": "BatchNorm", "inputs": ["conv1"], "outputs": ["bn1"]},
    {"name": "act1", "type": "Activation", "inputs": ["bn1"], "outputs": ["bn1"], "options": {"activation": "tanh"}},
    {"name": "conv2", "type": "Convolution2D", "inputs": ["bn1"], "outputs": ["conv2"],
     "options": {"channels_out": 6, "kernel": [3, 3], "pad": [1, 1], "groups": 2}},
    {"name": "sum", "type": "Elementwise", "inputs": ["conv2", "bn1"], "outputs": ["sum"],
     "options": {"operation": "sum", "activation": "sigmoid"}},
    {"name": "pool", "type": "Pooling2D", "inputs": ["sum"], "outputs": ["pool"],
     "options": {"mode": "avg", "kernel": 2, "stride": 2}},
    {"name": "fc1", "type": "InnerProduct", "inputs": ["pool"], "outputs": ["fc1"],
     "options": {"outputs": 10, "activation": "tanh"}},
    {"name": "fc2", "type": "InnerProduct", "inputs": ["fc1"], "outputs": ["fc2"], "options": {"outputs": 5}},
    {"name": "prob", "type": "Softmax", "inputs": ["fc2"], "outputs": ["prob"]},
    {"name": "loss", "type": "SoftmaxWithLoss", "inputs": ["fc2", "label"], "outputs": ["loss"]}
  ]
})";

void fill_inputs(Net& net, unsigned seed = 1)
{
    test::write(net.queue(), net.tensor("data"), test::random_values(net.spec("data").shape.product(), seed));
    Values labels(static_cast<std::size_t>(net.spec("label").shape[0]));
    for (std::size_t i = 0; i < labels.size(); ++i)
        labels[i] = static_cast<double>(i % 5);
    test::write(net.queue(), net.tensor("label"), labels);
}

double loss_of(Net& net)
{
    net.forward();
    return test::read(net.queue(), net.tensor("loss"))[0];
}

TEST(Net, GradientsMatchFiniteDifferencesInEveryParameter)
{
    Net net(Context::get());
    net.load_json(small_cnn);
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(7);
    fill_inputs(net);
    net.forward();
    net.backward();
    int checked = 0;
    for (const std::string& name : net.parameter_names()) {
        const Tensor gradient = net.parameter_gradient(name);
        if (!gradient.defined()) {
            EXPECT_TRUE(name == "bn1.0" || name == "bn1.1") << name;   // running statistics
            continue;
        }
        const Values values = test::read(net.queue(), net.parameter(name)), g = test::read(net.queue(), gradient);
        for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 4) {
            const double step = 1e-2;
            Values moved = values;
            moved[i] = values[i] + step;
            test::write(net.queue(), net.parameter(name), moved);
            const double up = loss_of(net);
            moved[i] = values[i] - step;
            test::write(net.queue(), net.parameter(name), moved);
            const double down = loss_of(net);
            EXPECT_NEAR(g[i], 0.5 * (up - down) / (2 * step), 1e-4) << name << "[" << i << "]";   // 0.5: the loss weight
            ++checked;
        }
        test::write(net.queue(), net.parameter(name), values);
    }
    EXPECT_GE(checked, 25);
}

TEST(Net, KeepingIntermediateTensorsChangesNoResult)
{
    Values first, second;
    for (const bool keep : {false, true}) {
        Net net(Context::get());
        net.keep_intermediate_tensors(keep);
        net.load_json(small_cnn);
        net.mode(NetMode::train);
        net.setup();
        net.initialize_parameters(3);
        fill_inputs(net);
        net.forward();
        net.backward();
        Values& all = keep ? second : first;
        for (const std::string& name : net.parameter_names())
            if (net.parameter_gradient(name).defined())
                for (const double v : test::read(net.queue(), net.parameter_gradient(name)))
                    all.push_back(v);
        if (keep) {
            EXPECT_EQ(net.tensor("conv2").shape, (Dims{4, 6, 8, 8}));
        } else {
            EXPECT_THROW(net.tensor("conv2"), InvalidArgument);
            EXPECT_LT(net.memory().intermediates, net.memory().without_reuse);
        }
    }
    EXPECT_EQ(first, second);
}

TEST(Net, FusionInPredictModeGivesTheSameAnswer)
{
    Net plain(Context::get()), fused(Context::get());
    plain.fusion(false);
    for (Net* net : {&plain, &fused}) {
        net->load_json(small_cnn);
        net->mode(NetMode::train);
        net->setup();
        net->initialize_parameters(5);
        fill_inputs(*net);
        net->forward();   // moves the running statistics
        net->backward();
        net->mode(NetMode::predict);
        net->setup();
    }
    fused.load_parameters(plain.parameters_to_host());
    for (unsigned pass = 0; pass < 2; ++pass) {
        fill_inputs(plain, 9);
        fill_inputs(fused, 9);
        plain.forward();
        fused.forward();
        const Values a = test::read(plain.queue(), plain.tensor("prob")), b = test::read(fused.queue(), fused.tensor("prob"));
        for (std::size_t i = 0; i < a.size(); ++i)
            EXPECT_NEAR(a[i], b[i], 1e-6);
        // The folded copies follow a change of the parameters.
        WeightMap weights = plain.parameters_to_host();
        for (Net* net : {&plain, &fused}) {
            test::write(net->queue(), net->parameter("bn1.2"), test::random_values(6, 4, 0.5, 2));
            net->parameters_changed();
        }
    }
    EXPECT_LT(fused.profile().size(), plain.profile().size());
}

// Two residual blocks, one with a convolution on the shortcut, and one whose shortcut is the convolution's own input.
Net residual_net(bool fusion)
{
    Net net(Context::get());
    net.fusion(fusion);
    net.add_input("x", {{2, 4, 7, 7}});
    const ConvolutionConfig conv{.channels_out = 4, .kernel = {3}, .pad = {1}, .bias = false};
    net.add(conv, "a", {"x"}, {"a"});
    net.add(BatchNormConfig{}, "a_bn", {"a"}, {"a"});
    net.add(ActivationConfig{StandardActivation::relu}, "a_relu", {"a"}, {"a"});
    net.add(conv, "b", {"a"}, {"b"});
    net.add(BatchNormConfig{}, "b_bn", {"b"}, {"b"});
    net.add(conv, "short", {"a"}, {"s"});
    net.add(ElementwiseConfig{}, "sum", {"b", "s"}, {"sum"});
    net.add(ActivationConfig{StandardActivation::relu6}, "sum_act", {"sum"}, {"sum"});
    net.add(conv, "c", {"sum"}, {"c"});
    net.add(ElementwiseConfig{.activation = StandardActivation::tanh}, "sum2", {"sum", "c"}, {"sum2"});
    net.add(conv, "d", {"sum2"}, {"d"});
    net.add(conv, "e", {"d"}, {"e"});
    net.add(ElementwiseConfig{.activation = StandardActivation::sigmoid}, "sum3", {"e", "sum2"}, {"y"});
    net.mark_output("y");
    return net;
}

TEST(Net, ResidualSumsAreFusedAndSeveralQueuesGiveTheSameAnswer)
{
    Values plain;
    std::size_t steps = 0;
    for (const bool fusion : {false, true})
        for (const int queues : {1, 3}) {
            Net net = residual_net(fusion);
            net.queue_count(queues);
            net.setup();
            net.initialize_parameters(4);
            test::write(net.queue(), net.parameter("b_bn.0"), test::random_values(4, 6));
            test::write(net.queue(), net.parameter("b_bn.2"), test::random_values(4, 7, -2, 2));
            net.parameters_changed();
            test::write(net.queue(), net.tensor("x"), test::random_values(2 * 4 * 49, 8));
            for (int pass = 0; pass < 3; ++pass)
                net.forward();
            const Values y = test::read(net.queue(), net.tensor("y"));
            if (plain.empty())
                plain = y;
            for (std::size_t i = 0; i < y.size(); ++i)
                ASSERT_NEAR(y[i], plain[i], 1e-5) << fusion << " " << queues;
            if (queues == 1)
                steps = fusion ? steps - net.profile().size() : net.profile().size();
        }
    EXPECT_EQ(steps, 7u);   // two batch norms, two activations and three sums went into convolutions
}

TEST(Net, WhatIsReadLaterIsNotOverwrittenInPlace)
{
    for (const NetMode mode : {NetMode::predict, NetMode::train}) {
        Values results[2];
        for (const bool keep : {false, true}) {
            Net net(Context::get());
            net.fusion(false);
            net.keep_intermediate_tensors(keep);
            net.add_input("x", {{3, 40}});
            net.add(InnerProductConfig{.outputs = 40}, "fc", {"x"}, {"h"});
            net.add(AbsConfig{}, "abs", {"h"}, {"a"});                           // may not lie in h: it is read below
            net.add(FlattenConfig{}, "view", {"a"}, {"v"});
            net.add(HardtanhConfig{.min_val = -0.1, .max_val = 0.1}, "clip", {"a"}, {"c"});   // nor in a, for its view
            net.add(ElementwiseConfig{.operation = "prod"}, "product", {"v", "h"}, {"p"});
            net.add(ElementwiseConfig{}, "sum", {"p", "c"}, {"s"});
            net.add(ReductionConfig{.method = "sumsq"}, "loss", {"s"}, {"loss"});
            net.mark_output("loss");
            net.mode(mode);
            net.setup();
            net.initialize_parameters(3);
            test::write(net.queue(), net.tensor("x"), test::random_values(120, 2));
            net.forward();
            results[keep] = test::read(net.queue(), net.tensor("loss"));
            if (mode == NetMode::train) {
                net.backward();
                for (const double v : test::read(net.queue(), net.parameter_gradient("fc.0")))
                    results[keep].push_back(v);
            }
        }
        EXPECT_EQ(results[0], results[1]);
    }
}

TEST(Net, ReshapeTakesOtherBatchAndImageSizesWithoutBuildingPrograms)
{
    Net net(Context::get());
    net.add_input("x", {{2, 3, 16, 16}});
    net.add(ConvolutionConfig{.channels_out = 8, .kernel = {3}, .stride = {2}, .pad = {1}}, "conv", {"x"}, {"conv"});
    net.add(GlobalPoolingConfig{.mode = "avg"}, "pool", {"conv"}, {"pool"});
    net.add(InnerProductConfig{.outputs = 4}, "fc", {"pool"}, {"y"});
    net.mark_output("y");
    net.setup();
    net.initialize_parameters(1);
    const Values image = test::random_values(3 * 16 * 16, 2);
    Values two = image;
    two.insert(two.end(), image.begin(), image.end());
    test::write(net.queue(), net.input(0), two);
    net.forward();
    const Values y = test::read(net.queue(), net.output(0));
    net.reshape({{"x", {5, 3, 33, 20}}});
    EXPECT_EQ(net.output(0).shape, (Dims{5, 4}));
    net.forward();
    net.queue().finish();
    const std::size_t builds = Context::get().program_builds();
    net.reshape({{"x", {1, 3, 16, 16}}});
    test::write(net.queue(), net.input(0), image);
    net.forward();
    const Values again = test::read(net.queue(), net.output(0));
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(again[i], y[i], 1e-6);
    net.reshape({{"x", {7, 3, 40, 50}}});
    net.forward();
    net.queue().finish();
    EXPECT_EQ(Context::get().program_builds(), builds);
    EXPECT_THROW(net.reshape({{"x", {7, 4, 40, 50}}}), InvalidArgument);   // the parameters have 3 channels
    EXPECT_EQ(net.spec("x").shape, (Dims{7, 3, 40, 50}));
}

TEST(Net, GradientsAccumulateUntilZeroGradAndAcrossSharedParameters)
{
    Net net(Context::get());
    net.add_input("x", {{3, 4}});
    net.add_operator(make_operator(InnerProductConfig{.outputs = 4}), "a", {"x"}, {"h"}, {"w", "b"});
    net.add_operator(make_operator(InnerProductConfig{.outputs = 4}), "c", {"h"}, {"y"}, {"w", "b"});
    net.add(ReductionConfig{.method = "sum"}, "total", {"y"}, {"loss"});
    net.mark_output("loss");
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(2);
    EXPECT_EQ(net.parameter_names(), (std::vector<std::string>{"w", "b"}));
    test::write(net.queue(), net.tensor("x"), test::random_values(12, 5));
    net.forward();
    net.backward();
    const Values once = test::read(net.queue(), net.parameter_gradient("w"));
    net.forward();
    net.backward();
    const Values twice = test::read(net.queue(), net.parameter_gradient("w"));
    const Values w = test::read(net.queue(), net.parameter("w"));
    for (std::size_t i = 0; i < w.size(); ++i) {
        EXPECT_NEAR(twice[i], 2 * once[i], 1e-5);
        double loss[2];
        for (const int side : {0, 1}) {
            Values moved = w;
            moved[i] += side ? 1e-2 : -1e-2;
            test::write(net.queue(), net.parameter("w"), moved);
            loss[side] = loss_of(net);
        }
        test::write(net.queue(), net.parameter("w"), w);
        EXPECT_NEAR(once[i], (loss[1] - loss[0]) / 2e-2, 2e-3);
    }
    net.zero_grad();
    EXPECT_FALSE(net.parameter_gradient("w").defined());
}

TEST(Net, FrozenOperatorsAndBranchesWithoutLossGetNoGradient)
{
    Net net(Context::get());
    net.add_input("x", {{3, 4}});
    net.add_operator(make_operator(InnerProductConfig{.outputs = 4}), "frozen", {"x"}, {"h"}, {}, true);
    net.add(InnerProductConfig{.outputs = 2}, "head", {"h"}, {"y"});
    net.add(InnerProductConfig{.outputs = 2}, "aside", {"h"}, {"z"});
    net.add(ReductionConfig{.method = "mean"}, "mean", {"y"}, {"loss"});
    net.mark_output("loss");
    net.mark_output("z");
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(2);
    test::write(net.queue(), net.tensor("x"), test::random_values(12, 5));
    net.forward();
    net.backward();
    EXPECT_FALSE(net.parameter_gradient("frozen.0").defined());
    EXPECT_FALSE(net.parameter_gradient("aside.0").defined());
    EXPECT_TRUE(net.parameter_gradient("head.0").defined());
    EXPECT_THROW(net.gradient("z"), InvalidArgument);
}

TEST(Net, ForwardAndBackwardNeverWait)
{
    Net net(Context::get());
    net.load_json(small_cnn);
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(1);
    fill_inputs(net);
    AdamSolver adam;
    adam.step(net);
    net.queue().finish();
    const std::uint64_t waits = blocking_calls();
    adam.step(net);
    EXPECT_EQ(blocking_calls(), waits);
    net.queue().finish();
}

TEST(Net, JsonRoundTripKeepsTheNet)
{
    Net net(Context::get()), again(Context::get());
    net.load_json(small_cnn);
    again.load_json(net.to_json());
    EXPECT_EQ(again.to_json(), net.to_json());
    Values results[2];
    int i = 0;
    for (Net* n : {&net, &again}) {
        n->setup();
        n->initialize_parameters(11);
        fill_inputs(*n);
        n->forward();
        results[i++] = test::read(n->queue(), n->tensor("loss"));
    }
    EXPECT_EQ(results[0], results[1]);
}

TEST(Net, InitialValuesArePyTorchs)
{
    Net net(Context::get());
    net.add_input("x", {{1, 50, 8, 8}});
    net.add(ConvolutionConfig{.channels_out = 64, .kernel = {3}}, "conv", {"x"}, {"c"});
    net.add(BatchNormConfig{}, "bn", {"c"}, {"n"});
    net.add(InnerProductConfig{.outputs = 30}, "fc", {"n"}, {"y"});
    net.setup();
    net.initialize_parameters(1);
    const auto bound = [&](const std::string& name) {
        double largest = 0, mean = 0;
        const Values values = test::read(net.queue(), net.parameter(name));
        for (const double v : values) {
            largest = std::max(largest, std::abs(v));
            mean += v / static_cast<double>(values.size());
        }
        EXPECT_LT(std::abs(mean), 0.2 * largest) << name;
        return largest;
    };
    EXPECT_NEAR(bound("conv.0"), 1 / std::sqrt(450.0), 1e-3);   // kaiming_uniform_(a = sqrt(5)): 1 / sqrt(fan_in)
    EXPECT_LE(bound("conv.1"), 1 / std::sqrt(450.0));
    EXPECT_NEAR(bound("fc.0"), 1 / std::sqrt(64.0 * 36), 1e-4);
    const double expected[] = {0, 1, 1, 0};
    for (int i = 0; i < 4; ++i)
        for (const double v : test::read(net.queue(), net.parameter("bn." + std::to_string(i))))
            ASSERT_EQ(v, expected[i]);
}

TEST(Net, ErrorsNameTheOperatorAndTheArgument)
{
    const auto message = [](const std::string& operators, const std::string& rest = "\"outputs\": []") {
        Net net(Context::get());
        try {
            net.load_json(R"({"inputs": [{"name": "x", "shape": [2, 3, 8, 8]}], "operators": [)" + operators + "], " + rest + "}");
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    const auto expect = [&](const std::string& operators, const std::vector<std::string>& parts) {
        const std::string text = message(operators);
        for (const std::string& part : parts)
            EXPECT_NE(text.find(part), text.npos) << text << "\nlacks: " << part;
    };
    expect(R"({"name": "c", "type": "Convolution2D", "inputs": ["x"], "outputs": ["y"], "options": {"kernel": 3}})",
           {"\"c\"", "Convolution2D", "channels_out", "required"});
    expect(R"({"name": "c", "type": "Convolution2D", "inputs": ["x"], "outputs": ["y"],
               "options": {"kernel": 9, "channels_out": 4}})", {"\"c\"", "[9]", "[2, 3, 8, 8]"});
    expect(R"({"name": "c", "type": "Convolution2D", "inputs": ["missing"], "outputs": ["y"],
               "options": {"kernel": 3, "channels_out": 4}})", {"\"c\"", "\"missing\""});
    expect(R"({"name": "c", "type": "Conv", "inputs": ["x"], "outputs": ["y"]})", {"\"c\"", "\"Conv\""});
    expect(R"({"name": "c", "type": "Abs", "inputs": ["x"], "outputs": ["x", "z"]})", {"\"c\"", "1 outputs", "2"});
    expect(R"({"name": "c", "type": "Abs", "inputs": ["x"], "outputs": ["y"]},
              {"name": "d", "type": "Abs", "inputs": ["x"], "outputs": ["y"]})", {"\"d\"", "\"y\""});
    expect(R"({"name": "c", "type": "Reshape", "inputs": ["x"], "outputs": ["y"], "options": {"dims": [0, 7]}})",
           {"\"c\"", "[0, 7]", "384"});
    expect(R"({"name": "p", "type": "Parameter", "inputs": [], "outputs": ["y"],
               "options": {"shape": [1000000000, 1000000000, 1000000000]}})", {"\"p\"", "too large"});
    EXPECT_NE(message("", "\"outputs\": [\"q\"]").find("\"q\""), std::string::npos);
    EXPECT_EQ(message("", "\"outputs\": []"), "no error");
    EXPECT_THROW(make_operator("Abs", Options(R"({"values": 3})")), InvalidArgument);
    Net odd(Context::get());   // as existing nets have it: a warning
    odd.load_json(R"({"inputs": [{"shape": [2]}], "outputs": [], "comment": 1,
        "operators": [{"name": "c", "type": "Abs", "inputs": ["data"], "outputs": ["y"], "options": {"values": 3}}]})");
    ASSERT_EQ(odd.json_warnings().size(), 2u);
    EXPECT_EQ(odd.json_warnings()[0], "operator \"c\" (Abs): there is no option \"values\"");
    Net net(Context::get());
    EXPECT_THROW(net.load_json("{\"inputs\": ["), InvalidArgument);
    EXPECT_THROW(net.load_json(std::string(100000, '[')), InvalidArgument);
    EXPECT_THROW(net.backward(), InvalidArgument);
    EXPECT_THROW(net.tensor("x"), InvalidArgument);
}

}  // namespace
