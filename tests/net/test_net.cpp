// Nets as a whole: building, modes, gradients against finite differences, memory, errors.
#include <clprim/solver.hpp>
#include <gtest/gtest.h>

#include <cmath>

#include "net/small_cnn.hpp"

namespace {

using namespace clprim;
using test::fill_inputs;
using test::small_cnn;
using test::Values;

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
            EXPECT_NEAR(g[i], 0.5 * (up - down) / (2 * step), 1e-4) << name << "[" << i << "]"; // 0.5: the loss weight
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
    net.reshape({{"x", {1, 3, 16, 16}}});   // products of one row have a kernel of their own
    test::write(net.queue(), net.input(0), image);
    net.forward();
    const Values again = test::read(net.queue(), net.output(0));
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(again[i], y[i], 1e-6);
    const std::size_t builds = Context::get().program_builds();
    net.reshape({{"x", {3, 3, 21, 64}}});
    net.forward();
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

TEST(Net, InputsAndOutputsAreCounted)
{
    Net net(Context::get());
    net.add_input("x", {{2, 3, 4, 4}});
    net.add(GlobalPoolingConfig{.mode = "avg"}, "pool", {"x"}, {"y"});
    net.mark_output("y");
    net.setup();
    EXPECT_EQ(net.input(0).shape, (Dims{2, 3, 4, 4}));
    try {
        net.output(3);
        FAIL() << "output 3 of a net with one";
    } catch (const InvalidArgument& error) {
        EXPECT_STREQ(error.what(), "output 3 is asked for, the net has 1");
    }
    EXPECT_THROW(net.input(1), InvalidArgument);
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
            net.load_json(R"({"inputs": [{"name": "x", "shape": [2, 3, 8, 8]}], "operators": [)" + operators + "], " +
                          rest + "}");
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

TEST(NetMisuse, MovedFromObjectsSaySo)
{
    Net net(Context::get());
    net.load_json(small_cnn);
    Net kept(std::move(net));
    EXPECT_THROW(net.forward(), InvalidArgument);
    EXPECT_THROW(net.input_names(), InvalidArgument);
    EXPECT_THROW(net.mode(NetMode::train), InvalidArgument);
    EXPECT_THROW(net.parameters_to_host(), InvalidArgument);
    EXPECT_EQ(kept.input_names().size(), 2u);
    net = Net(Context::get());
    net.add_input("x", {{2, 3}});
    Options options(R"({"a": 1})"), taken(std::move(options));
    EXPECT_THROW(options.has("a"), InvalidArgument);
    EXPECT_EQ(taken.integer("a"), 1);
}

}  // namespace
