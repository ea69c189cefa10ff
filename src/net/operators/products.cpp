// Products: fully connected layers and of two tensors.
#include <clprim/gemm.hpp>
#include <clprim/reduce.hpp>
#include <clprim/sequence_layers.hpp>

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

template <class F>
void fields(F& f, LinearConfig& c)
{
    f.required("outputs", c.outputs);
    f("bias", c.bias);
    f("activation", c.activation);
}
template <class F>
void fields(F& f, MatMulConfig& c)
{
    f("transpose_a", c.transpose_a);
    f("transpose_b", c.transpose_b);
    f("scale", c.scale);
}

namespace {

// The axis from which on elements are the features of a row: all of an example are, or the last axis.
std::size_t first_feature(const InnerProductConfig&, const Dims&) { return 1; }
std::size_t first_feature(const LinearConfig&, const Dims& shape) { return shape.size() - 1; }

std::int64_t expected_features(const InnerProductConfig& c) { return c.inputs; }
std::int64_t expected_features(const LinearConfig&) { return 0; }   // any

// y = x W^T + b of rows of features.
template <class Config>
class FullyConnected : public ConfiguredOperator<Config>, public Fusible {
public:
    using ConfiguredOperator<Config>::config;

    FullyConnected(const char* type, const Config& c) : ConfiguredOperator<Config>(type, c)
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
        const Dims& x = inputs[0].shape;
        Dims shape(std::span(x.begin(), first_feature(config, x)));
        shape.push_back(config.outputs);
        return {{shape, inputs[0].dtype}};
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
        const Tensor x = matrix(call.inputs[0]), y = rows(call.outputs[0]), w = call.parameters[0].transpose(0, 1);
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
            rows(activation_gradient(call.queue, config.activation, call.output_gradients[0], call.outputs[0]));
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
        Config fused = config;
        fused.activation = activation;
        return make_operator(fused);
    }

    std::unique_ptr<Operator> with_function(const PointwiseStep& step) const override
    {
        if (!can_be_followed() || (step.row != "gelu" && step.row != "gelu_tanh"))
            return nullptr;
        auto fused = std::make_unique<FullyConnected>(*this);
        fused->function_ = step.row == "gelu" ? Activation::gelu : Activation::gelu_tanh;
        return fused;
    }

    std::unique_ptr<Operator> with_scale_shift() const override
    {
        // A channel is the second axis, which is that of the features in matrices alone.
        if (!can_be_followed() || std::is_same_v<Config, LinearConfig>)
            return nullptr;
        Config fused = config;
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

    Tensor matrix(const Tensor& x) const
    {
        std::int64_t count = 1;
        for (std::size_t i = first_feature(config, x.shape); i < x.shape.size(); ++i)
            count *= x.shape[i];
        return x.reshape({x.numel() / count, count});
    }
    Tensor rows(const Tensor& y) const { return y.reshape({y.numel() / config.outputs, config.outputs}); }

    std::int64_t features(std::span<const TensorSpec> inputs) const
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        const std::size_t least = std::is_same_v<Config, LinearConfig> ? 1 : 2;
        require(x.size() >= least, "input must have ", least, " or more dimensions, got shape ", to_string(x));
        std::int64_t count = 1;
        for (std::size_t i = first_feature(config, x); i < x.size(); ++i)
            count *= x[i];
        const std::int64_t expected = expected_features(config);
        require(count > 0 && (expected == 0 || expected == count), "input of shape ", to_string(x), " has ", count,
                " features", expected ? ", option \"inputs\" says " : "", expected ? std::to_string(expected) : "");
        return count;
    }
};

const Dims& matrices(const TensorSpec& spec, const char* what)
{
    require_floating(spec, what);
    require(spec.shape.size() >= 2, what, " must have 2 or more axes, got shape ", to_string(spec.shape));
    return spec.shape;
}

class MatMul : public ConfiguredOperator<MatMulConfig> {
public:
    MatMul(const char* type, const MatMulConfig& c) : ConfiguredOperator(type, c) {}

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 2);
        const Dims &a = matrices(inputs[0], "input 0"), &b = matrices(inputs[1], "input 1");
        require(inputs[0].dtype == inputs[1].dtype, "inputs must have one dtype, got ", name_of(inputs[0].dtype),
                " and ", name_of(inputs[1].dtype));
        bool fits = a.size() == b.size();
        for (std::size_t i = 0; fits && i + 2 < a.size(); ++i)
            fits = a[i] == b[i];
        const std::size_t last = a.size() - 1;
        fits = fits && a[config.transpose_a ? last - 1 : last] == b[config.transpose_b ? last : last - 1];
        require(fits, "matrices ", to_string(a), config.transpose_a ? " transposed" : "", " and ", to_string(b),
                config.transpose_b ? " transposed" : "", " do not fit");
        Dims shape = a;
        shape[last - 1] = a[config.transpose_a ? last : last - 1];
        shape[last] = b[config.transpose_b ? last - 1 : last];
        return {{shape, inputs[0].dtype}};
    }
    void forward(const OperatorCall& call) override
    {
        product(call.queue, turned(call.inputs[0], config.transpose_a), turned(call.inputs[1], config.transpose_b),
                batch_of(call.outputs[0]));
    }
    // Of C = A B: dA = dC B^T, dB = A^T dC, each transposed where the operand was.
    void backward(const OperatorCall& call) override
    {
        const Tensor dc = batch_of(call.output_gradients[0]);
        const Tensor a = turned(call.inputs[0], config.transpose_a), b = turned(call.inputs[1], config.transpose_b);
        if (call.input_gradients[0].defined())
            product(call.queue, dc, b.transpose(1, 2), turned(call.input_gradients[0], config.transpose_a));
        if (call.input_gradients[1].defined())
            product(call.queue, a.transpose(1, 2), dc, turned(call.input_gradients[1], config.transpose_b));
    }

private:
    static Tensor batch_of(const Tensor& t)
    {
        const std::int64_t rows = t.size(t.dim() - 2), columns = t.size(t.dim() - 1), one = rows * columns;
        return t.reshape({one ? t.numel() / one : 0, rows, columns});
    }
    static Tensor turned(const Tensor& t, bool transpose)
    {
        const Tensor batch = batch_of(t);
        return transpose ? batch.transpose(1, 2) : batch;
    }
    // The gradients carry the scale as the product does.
    void product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& c) const
    {
        if (c.numel() == 0)
            return;
        GemmProblem problem = gemm_problem(a, b, c);
        problem.alpha = config.scale;
        gemm(queue, problem, a, b, c);
    }
};

}  // namespace

CLPRIM_OPERATOR(InnerProductConfig, FullyConnected<InnerProductConfig>, "InnerProduct")
CLPRIM_OPERATOR(LinearConfig, FullyConnected<LinearConfig>, "Linear")
CLPRIM_OPERATOR(MatMulConfig, MatMul, "MatMul")

}  // namespace clprim
