// Batch and layer normalisation, dropout.
#include <clprim/copy.hpp>
#include <clprim/norm.hpp>
#include <clprim/pointwise.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"
#include "net/fusion.hpp"

namespace clprim {

template <class F>
void fields(F& f, BatchNormConfig& c)
{
    f("features", c.features);
    f("eps", c.eps);
    f("momentum", c.momentum);
    f("affine", c.affine);
    f("use_global_stats", c.use_global_stats);
}
template <class F>
void fields(F& f, DropoutConfig& c)
{
    f("p", c.p);
}
template <class F>
void fields(F& f, LayerNormConfig& c)
{
    f("eps", c.eps);
    f("rms", c.rms);
    f("bias", c.bias);
}

namespace {

DataType statistics_type(DataType type) { return type == DataType::float64 ? type : DataType::float32; }

class BatchNormOperator : public ConfiguredOperator<BatchNormConfig>, public Fusible {
public:
    BatchNormOperator(const char* type, const BatchNormConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.eps >= 0, "option \"eps\" must not be negative, got ", c.eps);
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        channels(inputs);
        return {{inputs[0].shape, inputs[0].dtype}};
    }

    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        const Dims shape{channels(inputs)};
        const DataType type = statistics_type(inputs[0].dtype);
        std::vector<TensorSpec> specs{{shape, type, false}, {shape, type, false}};
        if (config.affine)
            specs.insert(specs.end(), 2, {shape, type, true});
        return specs;
    }

    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        if (config.use_global_stats)
            return {};
        return {2, {{channels(inputs)}, statistics_type(inputs[0].dtype), false}};
    }

    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState&) override
    {
        const double values[] = {0, 1, 1, 0};
        for (std::size_t i = 0; i < parameters.size(); ++i)
            fill(queue, parameters[i], values[i]);
    }

    void forward(const OperatorCall& call) override
    {
        BatchNorm problem{call.inputs[0],         call.outputs[0],    gamma(call), beta(call),
                          call.parameters[0],     call.parameters[1], {},          {},
                          batch_statistics(call), config.momentum,    config.eps};
        if (problem.training) {
            problem.save_mean = call.saved[0];
            problem.save_invstd = call.saved[1];
        }
        batch_norm(call.queue, problem);
    }

    void backward(const OperatorCall& call) override
    {
        const bool training = batch_statistics(call);
        BatchNormBackward problem{call.output_gradients[0], call.inputs[0], gamma(call),
                                  training ? call.saved[0] : call.parameters[0],
                                  training ? call.saved[1] : call.parameters[1],
                                  call.input_gradients[0], {}, {}, training, config.eps};
        if (config.affine) {
            problem.grad_weight = call.parameter_gradients[2];
            problem.grad_bias = call.parameter_gradients[3];
        }
        batch_norm_backward(call.queue, problem);
    }

    bool is_scale_shift() const override { return true; }
    void scale_shift(Queue& queue, std::span<const Tensor> parameters, const Tensor& scale,
                     const Tensor& shift) const override
    {
        const Scalar eps[] = {Scalar(config.eps)};
        const Tensor outputs[] = {scale, shift};
        if (config.affine)
            pointwise(queue, parameters, outputs, eps, "y0 = x2 / sqrt(x1 + w0); y1 = x3 - x0 * y0;");
        else
            pointwise(queue, parameters, outputs, eps, "y0 = 1 / sqrt(x1 + w0); y1 = -x0 * y0;");
    }

private:
    bool batch_statistics(const OperatorCall& call) const
    {
        return call.mode == NetMode::train && !config.use_global_stats;
    }
    Tensor gamma(const OperatorCall& call) const { return config.affine ? call.parameters[2] : Tensor(); }
    Tensor beta(const OperatorCall& call) const { return config.affine ? call.parameters[3] : Tensor(); }

    std::int64_t channels(std::span<const TensorSpec> inputs) const
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        require(x.size() >= 2 && x.size() <= 5, "input must have 2 to 5 dimensions, got shape ", to_string(x));
        require(config.features == 0 || config.features == x[1], "input of shape ", to_string(x), " does not have the ",
                config.features, " channels of option \"features\"");
        return x[1];
    }
};

class Dropout : public ConfiguredOperator<DropoutConfig> {
public:
    Dropout(const char* type, const DropoutConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.p >= 0 && c.p <= 1, "option \"p\" must lie between 0 and 1, got ", c.p);
    }
    OperatorTraits traits() const override { return {.in_place = true, .backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        return {inputs[0]};
    }
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        return {{inputs[0].shape, DataType::boolean, false}};
    }
    void forward(const OperatorCall& call) override
    {
        if (call.mode == NetMode::train)
            dropout(call.queue, call.inputs[0], config.p, {call.seed, 0}, call.outputs[0], call.saved[0]);
        else if (call.outputs[0].memory != call.inputs[0].memory || call.outputs[0].offset != call.inputs[0].offset)
            copy(call.queue, call.inputs[0], call.outputs[0]);
    }
    void backward(const OperatorCall& call) override
    {
        dropout_backward(call.queue, call.output_gradients[0], call.saved[0], config.p < 1 ? 1 / (1 - config.p) : 0.0,
                         call.input_gradients[0]);
    }
};

class LayerNormOperator : public ConfiguredOperator<LayerNormConfig> {
public:
    LayerNormOperator(const char* type, const LayerNormConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.eps >= 0, "option \"eps\" must not be negative, got ", c.eps);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const Dims& shape = inputs[0].shape;
        require(!shape.empty() && shape.back() > 0, "input of shape ", to_string(shape), " has nothing to normalise");
        return {{inputs[0].shape, inputs[0].dtype}};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        return {has_bias() ? 2u : 1u, {{inputs[0].shape.back()}, inputs[0].dtype}};
    }
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        return {2,
                {{inputs[0].shape.product() / inputs[0].shape.back()},
                 statistics_type(inputs[0].dtype),
                 false}}; // mean, rstd
    }
    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState&) override
    {
        for (std::size_t i = 0; i < parameters.size(); ++i)
            fill(queue, parameters[i], i == 0 ? 1.0 : 0.0);
    }
    void forward(const OperatorCall& call) override
    {
        LayerNorm problem;
        problem.x = call.inputs[0];
        problem.y = call.outputs[0];
        problem.weight = call.parameters[0];
        if (has_bias())
            problem.bias = call.parameters[1];
        problem.n = problem.x.shape.back();
        problem.rms = config.rms;
        problem.eps = config.eps;
        const bool kept = !call.saved.empty();
        const auto statistic = [&](std::size_t i) {
            if (kept)
                return call.saved[i];
            return call.queue.context().empty({problem.x.numel() / problem.n}, statistics_type(problem.x.dtype),
                                              call.queue);
        };
        if (!config.rms)
            problem.mean = statistic(0);
        problem.rstd = statistic(1);
        if (problem.x.numel())
            layer_norm(call.queue, problem);
    }
    void backward(const OperatorCall& call) override
    {
        LayerNormBackward problem;
        problem.grad_output = call.output_gradients[0];
        problem.x = call.inputs[0];
        problem.weight = call.parameters[0];
        if (!config.rms)
            problem.mean = call.saved[0];
        problem.rstd = call.saved[1];
        problem.grad_input = call.input_gradients[0];
        problem.grad_weight = call.parameter_gradients[0];
        if (has_bias())
            problem.grad_bias = call.parameter_gradients[1];
        problem.n = problem.x.shape.back();
        problem.rms = config.rms;
        layer_norm_backward(call.queue, problem);
    }

private:
    bool has_bias() const { return config.bias && !config.rms; }
};

}  // namespace

CLPRIM_OPERATOR(BatchNormConfig, BatchNormOperator, "BatchNorm")
CLPRIM_OPERATOR(DropoutConfig, Dropout, "Dropout")
CLPRIM_OPERATOR(LayerNormConfig, LayerNormOperator, "LayerNorm")

}  // namespace clprim
