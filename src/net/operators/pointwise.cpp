// Elementwise operators of one input, and rows of the pointwise table by name.
#include <clprim/pointwise.hpp>

#include <algorithm>

#include "net/fields.hpp"
#include "net/fusion.hpp"

namespace clprim {

template <class F>
void fields(F& f, ActivationConfig& c)
{
    f("activation", c.activation);
}
template <class F>
void fields(F& f, PointwiseConfig& c)
{
    f.required("function", c.function);
    f("values", c.values);
}
template <class F>
void fields(F& f, ThresholdConfig& c)
{
    f("threshold", c.threshold);
}
template <class F>
void fields(F& f, HardtanhConfig& c)
{
    f("min_val", c.min_val);
    f("max_val", c.max_val);
}
template <class F>
void fields(F&, AbsConfig&)
{
}

namespace {

// How the gradient of a row of one input is computed: a row of the table of x0 = dy and x1, with the forward's numbers,
// or an expression of them.
struct GradientRow {
    const char* function;
    bool by_result;         // x1 is the result, not the input
    const char* row;
    const char* code;
};
constexpr GradientRow gradients[] = {
    {"copy", true, nullptr, "y0 = x0;"},
    {"gt", true, nullptr, "y0 = 0;"},   // of a constant: Threshold
    {"relu", true, nullptr, "y0 = x1 <= 0 ? 0 : x0;"},
    {"sigmoid", true, "sigmoid_backward", nullptr},
    {"tanh", true, "tanh_backward", nullptr},
    {"clamp_scalar", false, "hardtanh_backward", nullptr},
    {"gelu", false, "gelu_backward", nullptr},
    {"gelu_tanh", false, "gelu_tanh_backward", nullptr},
    {"silu", false, "silu_backward", nullptr},
    {"mish", false, "mish_backward", nullptr},
    {"hardswish", false, "hardswish_backward", nullptr},
    {"hardsigmoid", false, "hardsigmoid_backward", nullptr},
    {"leaky_relu", false, "leaky_relu_backward", nullptr},
    {"elu", false, "elu_backward", nullptr},
    {"softplus", false, "softplus_backward", nullptr},
    {"log_sigmoid", false, "log_sigmoid_backward", nullptr},
    {"hardshrink", false, "shrink_backward", nullptr},
    {"softshrink", false, "shrink_backward", nullptr},
    {"abs", false, nullptr, "y0 = x1 > 0 ? x0 : x1 < 0 ? -x0 : 0;"},
    {"neg", true, nullptr, "y0 = -x0;"},
    {"exp", true, nullptr, "y0 = x0 * x1;"},
    {"log", false, nullptr, "y0 = x0 / x1;"},
    {"sqrt", true, nullptr, "y0 = x0 / (2 * x1);"},
    {"square", false, nullptr, "y0 = 2 * x0 * x1;"},
    {"reciprocal", true, nullptr, "y0 = -x0 * x1 * x1;"},
    {"sin", false, nullptr, "y0 = x0 * cos(x1);"},
    {"cos", false, nullptr, "y0 = -x0 * sin(x1);"},
    {"erf", false, nullptr, "y0 = x0 * (T)1.12837916709551257390 * exp(-x1 * x1);"},
};

const GradientRow* gradient_of(std::string_view function)
{
    const auto found =
        std::ranges::find(gradients, function, [](const GradientRow& row) { return std::string_view(row.function); });
    return found == std::end(gradients) ? nullptr : found;
}

// How many variables x0.. (or w0..) a code uses.
std::size_t count_of(std::string_view code, char letter)
{
    std::size_t count = 0;
    while (count < 10 && code.find(std::string{letter, char('0' + count)}) != code.npos)
        ++count;
    return count;
}

// A row of the table applied to the inputs and, after them, constants.
struct Function {
    const PointwiseRow* row;
    std::vector<double> values = {};
    std::vector<double> constants = {};   // operands x_k after the inputs
};

template <class Config>
class Elementary : public ConfiguredOperator<Config>, public Fusible {
public:
    Elementary(const char* type, const Config& c, Function function)
        : ConfiguredOperator<Config>(type, c), function_(std::move(function)),
          gradient_(gradient_of(function_.row->name)),
          inputs_(count_of(function_.row->code, 'x') - function_.constants.size())
    {
        const std::size_t needed = count_of(function_.row->code, 'w');
        require(function_.values.size() == needed, function_.row->name, " takes ", needed, " values, got ",
                function_.values.size());
    }

    OperatorTraits traits() const override
    {
        const bool by_result = gradient_ && gradient_->by_result;
        return {.in_place = function_.row->result == Result::common || function_.row->result == Result::real,
                .backward_reads_inputs = gradient_ && !by_result, .backward_reads_outputs = by_result,
                .differentiable = gradient_ != nullptr};
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, inputs_);
        TensorSpec y = inputs[function_.row->own_typed & 1 && inputs.size() > 1 ? 1 : 0];
        for (std::size_t k = 0; k < inputs.size(); ++k) {
            require(function_.row->own_typed >> k & 1 || inputs[k].dtype == y.dtype, "inputs must have one dtype, got ",
                    name_of(y.dtype), " and ", name_of(inputs[k].dtype));
            y.shape = broadcast(y.shape, inputs[k].shape);
        }
        if (!std::is_same_v<Config, ThresholdConfig> && function_.row->result == Result::predicate)
            y.dtype = DataType::boolean;
        return {y};
    }

    void forward(const OperatorCall& call) override
    {
        std::vector<Input> operands(call.inputs.begin(), call.inputs.end());
        const DataType common = call.inputs[call.inputs.size() > 1 ? 1 : 0].dtype;
        for (const double constant : function_.constants)
            operands.emplace_back(Scalar(constant), common);
        const std::vector<Scalar> values(function_.values.begin(), function_.values.end());
        pointwise(call.queue, *function_.row, {operands, call.outputs, values, common});
    }

    void backward(const OperatorCall& call) override
    {
        const Tensor& dy = call.output_gradients[0];
        const Tensor operands[] = {dy, gradient_->by_result ? call.outputs[0] : call.inputs[0]};
        if (gradient_->code)
            return pointwise(call.queue, operands, call.input_gradients, {}, gradient_->code);
        const Input inputs[] = {operands[0], operands[1]};
        const std::vector<Scalar> values(function_.values.begin(), function_.values.end());
        pointwise(call.queue, pointwise_row(gradient_->row), {inputs, call.input_gradients, values, dy.dtype});
    }

    std::optional<Activation> as_activation() const override
    {
        if constexpr (std::is_same_v<Config, ActivationConfig>)
            return this->config.activation;
        return std::nullopt;
    }

    std::optional<PointwiseStep> as_function() const override
    {
        if (inputs_ != 1 || !function_.constants.empty() || function_.row->result != Result::common)
            return std::nullopt;
        return PointwiseStep{function_.row->name, function_.values};
    }

private:
    Function function_;
    const GradientRow* gradient_;
    std::size_t inputs_;
};

Function function_of(const ActivationConfig& c)
{
    if (c.activation == Activation::relu6)
        return {&pointwise_row("clamp_scalar"), {0, 6}};
    return {&pointwise_row(c.activation == Activation::none ? "copy" : name_of(c.activation))};
}
Function function_of(const ThresholdConfig& c) { return {&pointwise_row("gt"), {}, {c.threshold}}; }
Function function_of(const HardtanhConfig& c) { return {&pointwise_row("clamp_scalar"), {c.min_val, c.max_val}}; }
Function function_of(const AbsConfig&) { return {&pointwise_row("abs")}; }
Function function_of(const PointwiseConfig& c)
{
    const PointwiseRow& row = pointwise_row(c.function);
    require<NotSupported>(row.code && count_of(row.code, 'y') == 1 && row.result != Result::index,
                          "the pointwise function ", c.function, " does not have one real result");
    return {&row, c.values};
}

}  // namespace

#define ELEMENTARY(Config, name)                                                                                       \
    Config Config::from_json(const Options& options) { return read_config<Config>(options); }                          \
    Options Config::to_json() const { return write_config(*this); }                                                    \
    std::unique_ptr<Operator> make_operator(const Config& config)                                                      \
    {                                                                                                                  \
        return std::make_unique<Elementary<Config>>(name, config, function_of(config));                                \
    }

ELEMENTARY(ActivationConfig, "Activation")
ELEMENTARY(PointwiseConfig, "Pointwise")
ELEMENTARY(ThresholdConfig, "Threshold")
ELEMENTARY(HardtanhConfig, "Hardtanh")
ELEMENTARY(AbsConfig, "Abs")

}  // namespace clprim
