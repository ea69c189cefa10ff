// Sum, product and maximum of two tensors that broadcast.
#include <clprim/reduce.hpp>

#include "net/fields.hpp"
#include "net/fusion.hpp"

namespace clprim {

template <class F>
void fields(F& f, ElementwiseConfig& c)
{
    f("operation", c.operation);
    f("coef1", c.coef1);
    f("coef2", c.coef2);
    f("activation", c.activation);
}

Dims broadcast(const Dims& a, const Dims& b)
{
    const Dims &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
    Dims result = longer;
    for (std::size_t i = 0; i < shorter.size(); ++i) {
        std::int64_t& size = result[longer.size() - shorter.size() + i];
        require(size == shorter[i] || size == 1 || shorter[i] == 1, "shapes ", to_string(a), " and ", to_string(b),
                " do not broadcast");
        size = size == 1 ? shorter[i] : size;
    }
    return result;
}

namespace {

// x0, x1 the inputs, w0, w1 their coefficients; in gradients x0 is dy and x1, x2 the inputs.
struct Operation {
    const char* name;
    const char* code;
    const char* gradients[2];
    bool reads_inputs;
};
constexpr Operation operations[] = {
    {"sum", "y0 = w0 * x0 + w1 * x1;", {"w0 * x0", "w1 * x0"}, false},
    {"prod", "y0 = w0 * x0 * (w1 * x1);", {"w0 * w1 * x0 * x2", "w0 * w1 * x0 * x1"}, true},
    {"max", "T a = w0 * x0, b = w1 * x1; y0 = maximum(a, b);",
     {"(w0 * x1 > w1 * x2 ? w0 : w0 * x1 == w1 * x2 ? w0 / 2 : 0) * x0",
      "(w0 * x1 < w1 * x2 ? w1 : w0 * x1 == w1 * x2 ? w1 / 2 : 0) * x0"}, true},
};

class Elementwise : public ConfiguredOperator<ElementwiseConfig>, public Fusible {
public:
    Elementwise(const char* type, const ElementwiseConfig& c) : ConfiguredOperator(type, c)
    {
        for (const Operation& candidate : operations)
            if (c.operation == candidate.name)
                operation_ = &candidate;
        require(operation_ != nullptr, "option \"operation\" must be sum, prod or max, got ", c.operation);
    }

    OperatorTraits traits() const override
    {
        return {.in_place = true, .backward_reads_inputs = operation_->reads_inputs,
                .backward_reads_outputs = config.activation != Activation::none};
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 2);
        require_floating(inputs[0]);
        require(inputs[0].dtype == inputs[1].dtype, "inputs must have one dtype, got ", name_of(inputs[0].dtype),
                " and ", name_of(inputs[1].dtype));
        return {{broadcast(inputs[0].shape, inputs[1].shape), inputs[0].dtype}};
    }

    void forward(const OperatorCall& call) override
    {
        const Scalar scalars[] = {Scalar(config.coef1), Scalar(config.coef2)};
        if (config.activation == Activation::relu) {   // in the same pass
            const std::string code =
                std::string("T v; { T y0; ") + operation_->code + " v = y0; } y0 = maximum(v, (T)0);";
            return pointwise(call.queue, call.inputs, call.outputs, scalars, code);
        }
        pointwise(call.queue, call.inputs, call.outputs, scalars, operation_->code);
        apply_activation(call.queue, config.activation, call.outputs[0]);
    }

    void backward(const OperatorCall& call) override
    {
        const Tensor dy =
            activation_gradient(call.queue, config.activation, call.output_gradients[0], call.outputs[0]);
        const Scalar scalars[] = {Scalar(config.coef1), Scalar(config.coef2)};
        std::vector<Tensor> operands{dy};
        if (operation_->reads_inputs)
            operands.insert(operands.end(), call.inputs.begin(), call.inputs.end());
        for (std::size_t i = 0; i < 2; ++i) {
            if (!call.input_gradients[i].defined())
                continue;
            const Tensor outputs[] = {call.input_gradients[i]};
            const std::string term = operation_->gradients[i];
            if (outputs[0].shape == dy.shape)
                pointwise(call.queue, operands, outputs, scalars, "y0 = " + term + ";");
            else
                pointwise_reduce(
                    call.queue, operands, outputs, scalars,
                    {"T sum;", "s.sum = 0;", "s.sum += " + term + ";", "s.sum += other.sum;", "y0 = s.sum;"});
        }
    }

    std::unique_ptr<Operator> with_activation(Activation activation) const override
    {
        if (config.activation != Activation::none)
            return nullptr;
        ElementwiseConfig fused = config;
        fused.activation = activation;
        return make_operator(fused);
    }

    std::optional<Activation> as_residual_sum() const override
    {
        if (config.operation != "sum" || config.coef1 != 1 || config.coef2 != 1)
            return std::nullopt;
        return config.activation;
    }

private:
    const Operation* operation_ = nullptr;
};

}  // namespace

CLPRIM_OPERATOR(ElementwiseConfig, Elementwise, "Elementwise")

}  // namespace clprim
