// An operator of one's own in a net: y = x * sigmoid(beta x) with a trained beta (Swish; Ramachandran et al. 2017), by
// an expression for the forward pass and two for the backward. It is also registered by name, so JSON nets can use it.
#include <cmath>
#include <cstdio>
#include <vector>

#include <clprim/clprim.hpp>
#include <clprim/copy.hpp>
#include <clprim/reduce.hpp>
#include <clprim/solver.hpp>

namespace {

using namespace clprim;

class Swish : public Operator {
public:
    explicit Swish(double beta) : beta_(beta) {}

    std::string_view type() const override { return "Swish"; }
    Options options() const override { return Options().set("beta", beta_); }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require(inputs.size() == 1, "takes 1 input, got ", inputs.size());
        return {inputs[0]};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override { return {{{1}, inputs[0].dtype}}; }
    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState&) override
    {
        fill(queue, parameters[0], beta_);
    }

    // The parameter is one element and broadcasts.
    void forward(const OperatorCall& call) override
    {
        const Tensor operands[] = {call.inputs[0], call.parameters[0]};
        pointwise(call.queue, operands, call.outputs, {}, "y0 = x0 / (1 + exp(-x0 * x1));");
    }
    void backward(const OperatorCall& call) override
    {
        const Tensor operands[] = {call.output_gradients[0], call.inputs[0], call.parameters[0]};
        if (call.input_gradients[0].defined())
            pointwise(call.queue, operands, call.input_gradients, {},
                      "T s = 1 / (1 + exp(-x1 * x2)); y0 = x0 * (s + x1 * x2 * s * (1 - s));");
        if (call.parameter_gradients[0].defined())
            pointwise_reduce(call.queue, operands, call.parameter_gradients, {},
                             {"T sum;", "s.sum = 0;",
                              "T g = 1 / (1 + exp(-x1 * x2)); s.sum += x0 * x1 * x1 * g * (1 - g);",
                              "s.sum += other.sum;", "y0 = s.sum;"});
    }

private:
    double beta_;
};

const char* const description = R"({
  "inputs": [{"name": "x", "shape": [256, 8]}, {"name": "target", "shape": [256, 1]}],
  "outputs": ["loss"],
  "operators": [
    {"name": "fc1", "type": "InnerProduct", "inputs": ["x"], "outputs": ["fc1"], "options": {"outputs": 32}},
    {"name": "swish", "type": "Swish", "inputs": ["fc1"], "outputs": ["h"], "options": {"beta": 1}, "params": ["beta"]},
    {"name": "fc2", "type": "InnerProduct", "inputs": ["h"], "outputs": ["y"], "options": {"outputs": 1}},
    {"name": "loss", "type": "MSELoss", "inputs": ["y", "target"], "outputs": ["loss"]}
  ]
})";

float loss_of(Net& net)
{
    return *reinterpret_cast<const float*>(to_host(net.queue(), net.tensor("loss")).data.data());
}

}  // namespace

int main(int argc, char** argv)
try {
    register_operator("Swish", [](const Options& options) { return std::make_unique<Swish>(options.number("beta")); });
    Net net(Context::get(argc > 1 ? argv[1] : "0"));
    net.load_json(description);
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(1);

    // A smooth function of eight variables.
    std::vector<float> x(256 * 8), target(256);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = std::sin(0.37f * static_cast<float>(i * i % 1009));
    for (std::size_t i = 0; i < target.size(); ++i)
        target[i] = x[i * 8] * x[i * 8 + 1] + std::cos(2 * x[i * 8 + 2]);
    to_device(net.queue(), host_tensor({256, 8}, x), net.tensor("x"));
    to_device(net.queue(), host_tensor({256, 1}, target), net.tensor("target"));

    AdamSolver solver({.lr = 0.01});
    float first = 0;
    for (int step = 0; step < 300; ++step) {
        solver.step(net);
        if (step == 0)
            first = loss_of(net);
    }
    const float last = loss_of(net);
    const HostTensor beta = to_host(net.queue(), net.parameter("beta"));
    std::printf("loss %.4f -> %.4f, beta 1 -> %.3f\n", first, last, *reinterpret_cast<const float*>(beta.data.data()));
    return last < 0.2f * first ? 0 : 1;
} catch (const clprim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
