// Fully connected layers.
#include <clprim/gemm.hpp>
#include <clprim/reduce.hpp>

#include "net/fields.hpp"
#include "net/fusion.hpp"
#include "net/operators/initialize.hpp"

namespace clprim {

template <class F>
void fields(F& f, InnerProductConfig& c)
{
    f.required("outputs", c.outputs);
    f("inputs", c.inputs);
    f("bias", c.bias);
    f("activation", c.activation);
}

namespace {

class InnerProduct : public ConfiguredOperator<InnerProductConfig>, public Fusible {
public:
    InnerProduct(const char* type, const InnerProductConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.outputs > 0, "option \"outputs\" must be positive, got ", c.outputs);
    }

    OperatorTraits traits() const override
    {
        return {.backward_reads_outputs = config.activation != Activation::none};
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        features(inputs);
        return {{{inputs[0].shape[0], config.outputs}, inputs[0].dtype}};
    }

    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        std::vector<TensorSpec> specs{{{config.outputs, features(inputs)}, inputs[0].dtype}};
        if (config.bias)
            specs.push_back({{config.outputs}, inputs[0].dtype});
        return specs;
    }

    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random) override
    {
        uniform_by_fan_in(queue, parameters, parameters[0].size(1), random);
    }

    void forward(const OperatorCall& call) override
    {
        const Tensor& y = call.outputs[0];
        const Tensor x = matrix(call.inputs[0]), w = call.parameters[0].transpose(0, 1);
        const Tensor bias = config.bias ? call.parameters[1] : Tensor();
        GemmProblem problem = gemm_problem(x, w, y, bias);
        const bool fused = config.activation == Activation::relu;
        problem.activation = fused ? Activation::relu : function_;
        gemm(call.queue, problem, x, w, y, bias);
        if (!fused)
            apply_activation(call.queue, config.activation, y);
    }

    void backward(const OperatorCall& call) override
    {
        const Tensor dy =
            activation_gradient(call.queue, config.activation, call.output_gradients[0], call.outputs[0]);
        const Tensor &w = call.parameters[0], x = matrix(call.inputs[0]);
        if (call.input_gradients[0].defined()) {
            const Tensor dx = matrix(call.input_gradients[0]);
            gemm(call.queue, gemm_problem(dy, w, dx), dy, w, dx);
        }
        if (call.parameter_gradients[0].defined()) {
            const Tensor transposed = dy.transpose(0, 1), &dw = call.parameter_gradients[0];
            gemm(call.queue, gemm_problem(transposed, x, dw), transposed, x, dw);
        }
        if (config.bias && call.parameter_gradients[1].defined()) {
            const Input inputs[] = {dy};
            const Tensor sums[] = {call.parameter_gradients[1].reshape({1, config.outputs})};
            reduce(call.queue, reduce_row("sum"), {inputs, sums, {}, dy.dtype});
        }
    }

    std::unique_ptr<Operator> with_activation(Activation activation) const override
    {
        if (!can_be_followed())
            return nullptr;
        InnerProductConfig fused = config;
        fused.activation = activation;
        return make_operator(fused);
    }

    std::unique_ptr<Operator> with_function(const PointwiseStep& step) const override
    {
        if (!can_be_followed() || (step.row != "gelu" && step.row != "gelu_tanh"))
            return nullptr;
        auto fused = std::make_unique<InnerProduct>("InnerProduct", config);
        fused->function_ = step.row == "gelu" ? Activation::gelu : Activation::gelu_tanh;
        return fused;
    }

    std::unique_ptr<Operator> with_scale_shift() const override
    {
        if (!can_be_followed())
            return nullptr;
        InnerProductConfig fused = config;
        fused.bias = true;
        return make_operator(fused);
    }

    void fold(Queue& queue, std::span<const Tensor> parameters, const Tensor& scale, const Tensor& shift,
              std::span<const Tensor> folded) const override
    {
        const Tensor weights[] = {parameters[0], scale.reshape({config.outputs, 1})}, scaled[] = {folded[0]};
        pointwise(queue, weights, scaled, {}, "y0 = x0 * x1;");
        fold_bias(queue, parameters, scale, shift, folded[1]);
    }

private:
    bool can_be_followed() const
    {
        return config.activation == Activation::none && function_ == Activation::none;
    }

    Activation function_ = Activation::none;   // of predict mode, beside the configuration's

    static Tensor matrix(const Tensor& x) { return x.reshape({x.size(0), x.size(0) ? x.numel() / x.size(0) : 0}); }

    std::int64_t features(std::span<const TensorSpec> inputs) const
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        require(x.size() >= 2, "input must have 2 or more dimensions, got shape ", to_string(x));
        std::int64_t count = 1;
        for (std::size_t i = 1; i < x.size(); ++i)
            count *= x[i];
        require(count > 0 && (config.inputs == 0 || config.inputs == count), "input of shape ", to_string(x), " has ",
                count, " features, option \"inputs\" says ", config.inputs);
        return count;
    }
};

}  // namespace

CLPRIM_OPERATOR(InnerProductConfig, InnerProduct, "InnerProduct")

}  // namespace clprim
