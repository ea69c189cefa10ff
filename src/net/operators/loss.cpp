// Softmax and losses.
#include <clprim/copy.hpp>
#include <clprim/loss.hpp>
#include <clprim/reduce.hpp>
#include <clprim/softmax.hpp>

#include "net/fields.hpp"

namespace clprim {

template <class F>
void fields(F& f, SoftmaxConfig& c)
{
    f("log", c.log);
    f("axis", c.axis);
}
template <class F>
void fields(F& f, SoftmaxWithLossConfig& c)
{
    f("log", c.log);
}
template <class F>
void fields(F& f, NLLLossConfig& c)
{
    f("reduce", c.reduce);
}
template <class F>
void fields(F& f, MSELossConfig& c)
{
    f("reduce", c.reduce);
}

namespace {

Reduction reduction_from(const std::string& name)
{
    require(name == "mean" || name == "sum" || name == "none", "option \"reduce\" must be mean, sum or none, got ",
            name);
    return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

void require_labels(std::span<const TensorSpec> inputs)
{
    require_inputs(inputs, 2);
    require_floating(inputs[0]);
    const Dims &x = inputs[0].shape, &labels = inputs[1].shape;
    require(x.size() >= 2 && !labels.empty() && labels[0] == x[0] && labels.product() * x[1] == x.product(),
            "labels of shape ", to_string(labels), " do not fit an input of shape ", to_string(x),
            ": one label per element without the class axis");
    require(!is_complex(inputs[1].dtype), "labels must be real, got ", name_of(inputs[1].dtype));
}

class Softmax : public ConfiguredOperator<SoftmaxConfig> {
public:
    using ConfiguredOperator::ConfiguredOperator;
    OperatorTraits traits() const override { return {.backward_reads_inputs = false, .backward_reads_outputs = true}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        const auto rank = static_cast<std::int64_t>(inputs[0].shape.size());
        require(config.axis >= -rank && config.axis < rank, "option \"axis\" (", config.axis,
                ") is out of range for shape ", to_string(inputs[0].shape));
        return {inputs[0]};
    }
    void forward(const OperatorCall& call) override
    {
        softmax(call.queue, call.inputs[0], call.outputs[0], static_cast<int>(config.axis), config.log);
    }
    void backward(const OperatorCall& call) override
    {
        softmax_backward(call.queue, {call.output_gradients[0], call.outputs[0], call.input_gradients[0],
                                      static_cast<int>(config.axis), config.log});
    }
};

// Cross entropy of log-probabilities; with `Config` SoftmaxWithLossConfig it takes their logarithm first.
template <class Config>
class NegativeLogLikelihood : public ConfiguredOperator<Config> {
    static constexpr bool with_softmax = std::is_same_v<Config, SoftmaxWithLossConfig>;

public:
    NegativeLogLikelihood(const char* type, const Config& c) : ConfiguredOperator<Config>(type, c)
    {
        if constexpr (!with_softmax)
            reduction_ = reduction_from(c.reduce);
    }
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_labels(inputs);
        const Dims shape = reduction_ == Reduction::none ? inputs[1].shape : Dims{1};
        return {{shape, computed(inputs[0].dtype)}};
    }
    // Labels, sum of weights and, with softmax, log-probabilities.
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        std::vector<TensorSpec> specs{{inputs[1].shape, DataType::int64}, {{1}, computed(inputs[0].dtype)}};
        if (with_softmax)
            specs.push_back({inputs[0].shape, computed(inputs[0].dtype)});
        return specs;
    }

    void forward(const OperatorCall& call) override
    {
        std::vector<Tensor> kept(call.saved.begin(), call.saved.end());
        if (kept.empty()) {
            const TensorSpec inputs[] = {{call.inputs[0].shape, call.inputs[0].dtype},
                                         {call.inputs[1].shape, call.inputs[1].dtype}};
            for (const TensorSpec& spec : saved(inputs))
                kept.push_back(call.queue.context().empty(spec.shape, spec.dtype, call.queue));
        }
        copy(call.queue, call.inputs[1], kept[0]);
        if (with_softmax)
            softmax(call.queue, call.inputs[0], kept[2], 1, true);
        nll_loss(call.queue, problem(with_softmax ? kept[2] : call.inputs[0], kept[0]), call.outputs[0], kept[1]);
    }

    void backward(const OperatorCall& call) override
    {
        const Tensor &dx = call.input_gradients[0], &dy = call.output_gradients[0];
        if (!dx.defined())
            return;
        if (!with_softmax)
            return nll_loss_backward(call.queue, problem(dx, call.saved[0]), dy, call.saved[1], dx);
        const Tensor& y = call.saved[2];
        const Tensor gradient = call.queue.context().empty(y.shape, y.dtype, call.queue);
        nll_loss_backward(call.queue, problem(y, call.saved[0]), dy, call.saved[1], gradient);
        softmax_backward(call.queue, {gradient, y, dx, 1, true});
    }

private:
    // Losses of short floats are computed and given in float32.
    static DataType computed(DataType type)
    {
        return with_softmax && type != DataType::float64 ? DataType::float32 : type;
    }
    NllLoss problem(const Tensor& x, const Tensor& labels) const
    {
        NllLoss problem;
        problem.x = x;
        problem.target = labels;
        problem.reduction = reduction_;
        return problem;
    }

    Reduction reduction_ = Reduction::mean;
};

class MSELoss : public ConfiguredOperator<MSELossConfig> {
public:
    MSELoss(const char* type, const MSELossConfig& c)
        : ConfiguredOperator(type, c), reduction_(reduction_from(c.reduce))
    {
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 2);
        require_floating(inputs[0]);
        require(inputs[0].shape == inputs[1].shape && inputs[0].dtype == inputs[1].dtype,
                "inputs must have one shape and dtype, got ", to_string(inputs[0].shape), " and ",
                to_string(inputs[1].shape));
        return {{reduction_ == Reduction::none ? inputs[0].shape : Dims{1}, inputs[0].dtype}};
    }
    void forward(const OperatorCall& call) override
    {
        const DataType type = call.inputs[0].dtype;
        const std::vector<Input> inputs(call.inputs.begin(), call.inputs.end());
        if (reduction_ == Reduction::none)
            return pointwise(call.queue, pointwise_row("mse_loss"), {inputs, call.outputs, {}, type});
        const Tensor all[] = {call.outputs[0].reshape(Dims(call.inputs[0].dim(), 1))};
        const char* row = reduction_ == Reduction::mean ? "mse_loss_mean" : "mse_loss_sum";
        reduce(call.queue, reduce_row(row), {inputs, all, {}, type});
    }
    void backward(const OperatorCall& call) override
    {
        const double count = static_cast<double>(call.inputs[0].numel());
        const Scalar factor[] = {Scalar(reduction_ == Reduction::mean ? 2 / count : 2.0)};
        for (std::size_t i = 0; i < 2; ++i) {
            if (!call.input_gradients[i].defined())
                continue;
            const Input inputs[] = {call.output_gradients[0], call.inputs[i], call.inputs[1 - i]};
            pointwise(call.queue, pointwise_row("mse_loss_backward"),
                      {inputs, call.input_gradients.subspan(i, 1), factor, call.inputs[0].dtype});
        }
    }

private:
    Reduction reduction_;
};

using CrossEntropy = NegativeLogLikelihood<SoftmaxWithLossConfig>;
using NLLLoss = NegativeLogLikelihood<NLLLossConfig>;

}  // namespace

CLPRIM_OPERATOR(SoftmaxConfig, Softmax, "Softmax")
CLPRIM_OPERATOR(SoftmaxWithLossConfig, CrossEntropy, "SoftmaxWithLoss")
CLPRIM_OPERATOR(NLLLossConfig, NLLLoss, "NLLLoss")
CLPRIM_OPERATOR(MSELossConfig, MSELoss, "MSELoss")

}  // namespace clprim
