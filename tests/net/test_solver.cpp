// Solvers against PyTorch's update rules in double.
#include <clprim/solver.hpp>
#include <gtest/gtest.h>

#include <cmath>

#include "net/net_values.hpp"

namespace {

using namespace clprim;
using test::Values;

// loss = sum(x * w): the gradient of w is x, whatever w is.
struct Line {
    Net net{Context::get()};
    Values w;
    std::vector<Values> gradients;

    Line()
    {
        net.add_input("x", {{1, 37}});
        net.add(InnerProductConfig{.outputs = 1, .bias = false}, "fc", {"x"}, {"y"});
        net.add(ReductionConfig{.method = "sum"}, "sum", {"y"}, {"loss"});
        net.mark_output("loss");
        net.mode(NetMode::train);
        net.setup();
        w = test::random_values(37, 1);
        test::write(net.queue(), net.parameter("fc.0"), w);
        for (unsigned step = 0; step < 4; ++step)
            gradients.push_back(test::random_values(37, 10 + step));
    }
    void run(Solver& solver)
    {
        for (const Values& g : gradients) {
            test::write(net.queue(), net.tensor("x"), g);
            solver.step(net);
        }
    }
    void expect(const Values& expected)
    {
        const Values found = test::read(net.queue(), net.parameter("fc.0"));
        for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(found[i], expected[i], 2e-6);
    }
};

TEST(Solver, SgdFollowsPyTorch)
{
    for (const SGDConfig& c : {SGDConfig{.lr = 0.1}, SGDConfig{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05},
                               SGDConfig{.lr = 0.1, .momentum = 0.8, .dampening = 0.3},
                               SGDConfig{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true},
                               SGDConfig{.lr = 0.1, .momentum = 0.8, .maximize = true}}) {
        Line line;
        SGD sgd(c);
        line.run(sgd);
        Values w = line.w, v(w.size());
        for (std::size_t step = 0; step < line.gradients.size(); ++step)
            for (std::size_t i = 0; i < w.size(); ++i) {
                double g = (c.maximize ? -1 : 1) * line.gradients[step][i] + c.weight_decay * w[i];
                if (c.momentum != 0) {
                    v[i] = step == 0 ? g : c.momentum * v[i] + (1 - c.dampening) * g;
                    g = c.nesterov ? g + c.momentum * v[i] : v[i];
                }
                w[i] -= c.lr * g;
            }
        line.expect(w);
    }
}

TEST(Solver, AdamAndAdamWFollowPyTorch)
{
    for (const AdamConfig& c :
         {AdamConfig{.lr = 0.05}, AdamConfig{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1},
          AdamConfig{.lr = 0.05, .amsgrad = true}, adamw_config(0.05, 0.2)}) {
        Line line;
        AdamSolver adam(c);
        line.run(adam);
        Values w = line.w, m(w.size()), s(w.size()), top(w.size());
        for (std::size_t step = 0; step < line.gradients.size(); ++step)
            for (std::size_t i = 0; i < w.size(); ++i) {
                double g = line.gradients[step][i];
                if (c.decoupled)
                    w[i] *= 1 - c.lr * c.weight_decay;
                else
                    g += c.weight_decay * w[i];
                m[i] = c.beta1 * m[i] + (1 - c.beta1) * g;
                s[i] = c.beta2 * s[i] + (1 - c.beta2) * g * g;
                top[i] = std::max(top[i], s[i]);
                const double t = static_cast<double>(step + 1);
                const double correction = 1 - std::pow(c.beta2, t);
                w[i] -= c.lr / (1 - std::pow(c.beta1, t)) * m[i] /
                        (std::sqrt((c.amsgrad ? top[i] : s[i]) / correction) + c.eps);
            }
        line.expect(w);
    }
}

TEST(Solver, StateCanBeSavedAndResumed)
{
    Line whole, first, second;
    AdamSolver adam({.lr = 0.1}), before({.lr = 0.1}), after({.lr = 0.1});
    whole.run(adam);
    for (std::size_t step = 0; step < 4; ++step) {
        if (step == 2) {
            after.load_state(second.net, before.state_to_host());
            second.net.load_parameters(first.net.parameters_to_host());
        }
        Line& line = step < 2 ? first : second;
        test::write(line.net.queue(), line.net.tensor("x"), whole.gradients[step]);
        (step < 2 ? before : after).step(line.net);
    }
    EXPECT_EQ(test::read(second.net.queue(), second.net.parameter("fc.0")),
              test::read(whole.net.queue(), whole.net.parameter("fc.0")));
}

}  // namespace
