// What fusion in predict mode takes together, and that it changes no result; values that several readers share.
#include <clprim/sequence_layers.hpp>
#include <gtest/gtest.h>

#include "net/small_cnn.hpp"

namespace {

using namespace clprim;
using test::fill_inputs;
using test::small_cnn;
using test::Values;

TEST(Fusion, PredictModeGivesTheSameAnswer)
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
        const Values a = test::read(plain.queue(), plain.tensor("prob")),
                     b = test::read(fused.queue(), fused.tensor("prob"));
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

// Functions that the kernels of convolutions and products compute on the way, and one that they do not.
TEST(Fusion, FunctionsAreFusedBehindConvolutionsAndProducts)
{
    enum Behind { convolution, inner_product, linear };   // a convolution and its batch norm
    struct Followed {
        const char* row;
        std::vector<double> values;
        Behind what;
        std::size_t steps;
    };
    const Followed cases[] = {{"silu", {}, convolution, 1},          {"hardswish", {}, convolution, 1},
                              {"leaky_relu", {0.2}, convolution, 1}, {"clamp_scalar", {-0.5, 0.25}, convolution, 1},
                              {"mish", {}, convolution, 2},          {"gelu", {}, inner_product, 1},
                              {"gelu_tanh", {}, inner_product, 1},   {"silu", {}, inner_product, 2},
                              {"gelu", {}, linear, 1},               {"silu", {}, linear, 2}};
    for (const Followed& followed : cases) {
        Values results[2];
        for (const bool fusion : {false, true}) {
            Net net(Context::get());
            net.fusion(fusion);
            net.add_input("x", {{2, 4, 7, 7}});
            if (followed.what == inner_product) {
                net.add(InnerProductConfig{.outputs = 5}, "op", {"x"}, {"h"});
            } else if (followed.what == linear) {
                net.add(LinearConfig{.outputs = 5}, "op", {"x"}, {"h"});
            } else {
                net.add(ConvolutionConfig{.channels_out = 6, .kernel = {3}, .pad = {1}}, "op", {"x"}, {"c"});
                net.add(BatchNormConfig{}, "bn", {"c"}, {"h"});
            }
            net.add(PointwiseConfig{followed.row, followed.values}, "f", {"h"}, {"f"});
            net.add(ActivationConfig{Activation::relu}, "after", {"f"}, {"y"});   // not taken in as well
            net.mark_output("y");
            net.setup();
            net.initialize_parameters(3);
            test::write(net.queue(), net.tensor("x"), test::random_values(2 * 4 * 7 * 7, 1));
            net.forward();
            results[fusion] = test::read(net.queue(), net.tensor("y"));
            if (fusion) {
                EXPECT_EQ(net.profile().size(), followed.steps + 1) << followed.row;
            }
        }
        ASSERT_EQ(results[0].size(), results[1].size());
        for (std::size_t i = 0; i < results[0].size(); ++i)
            ASSERT_NEAR(results[0][i], results[1][i], 1e-5) << followed.row;
    }
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
    net.add(ActivationConfig{Activation::relu}, "a_relu", {"a"}, {"a"});
    net.add(conv, "b", {"a"}, {"b"});
    net.add(BatchNormConfig{}, "b_bn", {"b"}, {"b"});
    net.add(conv, "short", {"a"}, {"s"});
    net.add(ElementwiseConfig{}, "sum", {"b", "s"}, {"sum"});
    net.add(ActivationConfig{Activation::relu6}, "sum_act", {"sum"}, {"sum"});
    net.add(conv, "c", {"sum"}, {"c"});
    net.add(ElementwiseConfig{.activation = Activation::tanh}, "sum2", {"sum", "c"}, {"sum2"});
    net.add(conv, "d", {"sum2"}, {"d"});
    net.add(conv, "e", {"d"}, {"e"});
    net.add(ElementwiseConfig{.activation = Activation::sigmoid}, "sum3", {"e", "sum2"}, {"y"});
    net.mark_output("y");
    return net;
}

TEST(Fusion, ResidualSumsAreFusedAndSeveralQueuesGiveTheSameAnswer)
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

TEST(Fusion, WhatIsReadLaterIsNotOverwrittenInPlace)
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

}  // namespace
