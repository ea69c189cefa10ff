// Convolution and transposed convolution over one to three axes.
#include <map>

#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/pointwise.hpp>

#include "net/fields.hpp"
#include "net/fusion.hpp"
#include "net/operators/initialize.hpp"

namespace clprim {

template <class F>
void fields(F& f, ConvolutionConfig& c)
{
    f.required("channels_out", c.channels_out);
    f("channels_in", c.channels_in);
    f.required("kernel", c.kernel);
    f("stride", c.stride);
    f("pad", c.pad);
    f("pad_end", c.pad_end);
    f("dilate", c.dilate);
    f("output_pad", c.output_pad);
    f("groups", c.groups);
    f("bias", c.bias);
    f("activation", c.activation);
    f("auto_pad", c.auto_pad);
    f("spatial", c.spatial);
    f("transposed", c.transposed);
    f("fwd_algo", c.fwd_algo);
    f("bwd_data_algo", c.bwd_data_algo);
    f("bwd_filter_algo", c.bwd_filter_algo);
}

namespace {

void check(const ConvolutionConfig& c)
{
    require(c.spatial >= 1 && c.spatial <= 3, "a convolution has 1 to 3 spatial axes, not ", c.spatial);
    require(c.channels_out > 0, "option \"channels_out\" must be positive, got ", c.channels_out);
    require(c.groups > 0 && c.channels_out % c.groups == 0, "option \"groups\" (", c.groups,
            ") must be positive and divide channels_out (", c.channels_out, ")");
    const auto at_least = [&](const Dims& list, std::int64_t least, const char* option) {
        for (const std::int64_t value : per_axis(list, c.spatial, least, option))
            require(value >= least && value < (std::int64_t(1) << 31), "option \"", option, "\" must be ", least,
                    " or more, got ", to_string(list));
    };
    require(!c.kernel.empty(), "option \"kernel\" is required");
    at_least(c.kernel, 1, "kernel");
    at_least(c.stride, 1, "stride");
    at_least(c.dilate, 1, "dilate");
    at_least(c.pad, 0, "pad");
    at_least(c.pad_end, 0, "pad_end");
    at_least(c.output_pad, 0, "output_pad");
    require(c.transposed || c.output_pad.empty(), "option \"output_pad\" is for transposed convolutions");
    require(auto_pad_from(c.auto_pad) == AutoPad::none || (c.pad.empty() && c.pad_end.empty()),
            "options \"auto_pad\" and \"pad\" exclude each other");
}

std::string type_name(const ConvolutionConfig& c)
{
    return (c.transposed ? "TransposedConvolution" : "Convolution") + std::to_string(c.spatial) + "D";
}

class Convolution : public ConfiguredOperator<ConvolutionConfig>, public Fusible {
public:
    explicit Convolution(const ConvolutionConfig& c, bool residual = false)
        : ConfiguredOperator(type_name(c), c), residual_(residual)
    {
        check(c);
    }

    OperatorTraits traits() const override
    {
        return {.in_place = residual_, .backward_reads_outputs = config.activation != Activation::none,
                .in_place_of = residual_ ? 1 : 0};
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        const TensorSpec& x = checked_input(inputs);
        resolve(x.shape);
        const Dims y = conv_output_shape(x.shape, weight_shape(x), options_);
        for (std::int64_t i = 0; i < config.spatial; ++i)
            require(y[2 + i] > 0, "the kernel ", to_string(config.kernel), " does not fit the input ",
                    to_string(x.shape));
        return {{y, x.dtype}};
    }

    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        const TensorSpec& x = checked_input(inputs);
        std::vector<TensorSpec> specs{{weight_shape(x), x.dtype}};
        if (config.bias)
            specs.push_back({{config.channels_out}, x.dtype});
        return specs;
    }

    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random) override
    {
        // PyTorch takes the second size of the weight times the taps for the fan-in, also of transposed convolutions.
        const Tensor& w = parameters[0];
        uniform_by_fan_in(queue, parameters, w.numel() / w.size(0), random);
    }

    void forward(const OperatorCall& call) override
    {
        const Tensor& y = call.outputs[0];
        ConvOptions options = options_;
        const bool fused = fuse(config.activation, options);
        if (residual_) {
            const Tensor& residual = call.inputs[1];
            options.accumulate = true;
            if (y.memory != residual.memory || y.offset != residual.offset)
                copy(call.queue, residual, y);
        }
        conv_forward(call.queue, call.inputs[0], call.parameters[0], bias(call), y, options);
        if (!fused)
            apply_activation(call.queue, config.activation, y);
    }

    void backward(const OperatorCall& call) override
    {
        const Tensor dy =
            activation_gradient(call.queue, config.activation, call.output_gradients[0], call.outputs[0]);
        if (call.input_gradients[0].defined())
            conv_backward_data(call.queue, dy, call.parameters[0], call.input_gradients[0], options_);
        if (call.parameter_gradients[0].defined())
            conv_backward_weight(call.queue, call.inputs[0], dy, call.parameter_gradients[0], options_);
        if (config.bias && call.parameter_gradients[1].defined())
            conv_backward_bias(call.queue, dy, call.parameter_gradients[1]);
    }

    std::unique_ptr<Operator> with_activation(Activation activation) const override
    {
        if (!can_be_followed())
            return nullptr;
        ConvolutionConfig fused = config;
        fused.activation = activation;
        return std::make_unique<Convolution>(fused);
    }

    std::unique_ptr<Operator> with_function(const PointwiseStep& step) const override
    {
        static const std::map<std::string_view, Activation> known{
            {"silu", Activation::silu}, {"hardswish", Activation::hard_swish},
            {"leaky_relu", Activation::leaky_relu}, {"clamp_scalar", Activation::clip},
            {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}};
        const auto found = known.find(step.row);
        if (!can_be_followed() || found == known.end())
            return nullptr;
        auto fused = std::make_unique<Convolution>(config);
        fused->options_.activation = found->second;
        if (!step.values.empty())
            fused->options_.alpha = static_cast<float>(step.values[0]);
        if (step.values.size() > 1)
            fused->options_.beta = static_cast<float>(step.values[1]);
        return fused;
    }

    std::unique_ptr<Operator> with_scale_shift() const override
    {
        if (!can_be_followed())
            return nullptr;
        ConvolutionConfig fused = config;
        fused.bias = true;
        return std::make_unique<Convolution>(fused);
    }

    std::unique_ptr<Operator> with_residual(Activation activation) const override
    {
        if (!can_be_followed())
            return nullptr;
        ConvolutionConfig fused = config;
        fused.activation = activation;
        return std::make_unique<Convolution>(fused, true);
    }

    void fold(Queue& queue, std::span<const Tensor> parameters, const Tensor& scale, const Tensor& shift,
              std::span<const Tensor> folded) const override
    {
        // Output channels are axis 0 of the weight, or (group, axis 1) when transposed: [g, a, b, rest] shows both.
        const Tensor& w = parameters[0];
        const std::int64_t g = config.groups, a = w.size(0) / g, rest = w.numel() / (w.size(0) * w.size(1));
        const Dims view{g, a, w.size(1), rest};
        const Dims channels = config.transposed ? Dims{g, 1, w.size(1), 1} : Dims{g, a, 1, 1};
        const Tensor weights[] = {w.reshape(view), scale.reshape(channels)}, scaled[] = {folded[0].reshape(view)};
        pointwise(queue, weights, scaled, {}, "y0 = x0 * x1;");
        fold_bias(queue, parameters, scale, shift, folded[1]);
    }

private:
    // Whether nothing stands between the product and the result yet.
    bool can_be_followed() const
    {
        return config.activation == Activation::none && options_.activation == Activation::none &&
               !residual_;
    }

    const TensorSpec& checked_input(std::span<const TensorSpec> inputs) const
    {
        require_inputs(inputs, residual_ ? 2 : 1);
        const TensorSpec& x = inputs[0];
        require_floating(x);
        require(static_cast<std::int64_t>(x.shape.size()) == config.spatial + 2, "input must have ", config.spatial + 2,
                " dimensions, got shape ", to_string(x.shape));
        require(config.channels_in == 0 || config.channels_in == x.shape[1], "input of shape ", to_string(x.shape),
                " does not have the ", config.channels_in, " channels of option \"channels_in\"");
        require(x.shape[1] > 0 && x.shape[1] % config.groups == 0, "option \"groups\" (", config.groups,
                ") must divide the input's ", x.shape[1], " channels");
        return x;
    }

    Dims weight_shape(const TensorSpec& x) const
    {
        const std::int64_t in = x.shape[1], out = config.channels_out;
        Dims shape = config.transposed ? Dims{in, out / config.groups} : Dims{out, in / config.groups};
        for (const std::int64_t size : per_axis(config.kernel, config.spatial, 1, "kernel"))
            shape.push_back(size);
        return shape;
    }

    // Padding for this input's size.
    void resolve(const Dims& x)
    {
        const std::int64_t axes = config.spatial;
        const Dims kernel = per_axis(config.kernel, axes, 1, "kernel");
        options_.groups = config.groups;
        options_.transposed = config.transposed;
        options_.stride = per_axis(config.stride, axes, 1, "stride");
        options_.dilation = per_axis(config.dilate, axes, 1, "dilate");
        options_.output_padding = per_axis(config.output_pad, axes, 0, "output_pad");
        options_.pad_begin = per_axis(config.pad, axes, 0, "pad");
        options_.pad_end = config.pad_end.empty() ? options_.pad_begin : per_axis(config.pad_end, axes, 0, "pad_end");
        const AutoPad rule = auto_pad_from(config.auto_pad);
        if (rule != AutoPad::same_upper && rule != AutoPad::same_lower)
            return;
        for (std::int64_t i = 0; i < axes; ++i) {
            const std::int64_t in = x[2 + i], stride = options_.stride[i];
            const std::int64_t extent = (kernel[i] - 1) * options_.dilation[i] + 1;
            const std::int64_t total = std::max<std::int64_t>(
                0, config.transposed ? extent + options_.output_padding[i] - stride
                                     : ((in + stride - 1) / stride - 1) * stride + extent - in);
            const std::int64_t more = total - total / 2, less = total / 2;
            options_.pad_begin[i] = rule == AutoPad::same_upper ? less : more;
            options_.pad_end[i] = rule == AutoPad::same_upper ? more : less;
        }
    }

    Tensor bias(const OperatorCall& call) const { return config.bias ? call.parameters[1] : Tensor(); }

    // Puts the activation into the options if the kernels have it.
    static bool fuse(Activation activation, ConvOptions& options)
    {
        switch (activation) {
        case Activation::relu: options.activation = Activation::relu; return true;
        case Activation::sigmoid: options.activation = Activation::sigmoid; return true;
        case Activation::relu6:
            options.activation = Activation::clip;
            options.beta = 6;
            return true;
        default: return activation == Activation::none;
        }
    }

    ConvOptions options_;
    bool residual_;
};

}  // namespace

ConvolutionConfig ConvolutionConfig::from_json(const Options& options)
{
    return read_config<ConvolutionConfig>(options);
}
Options ConvolutionConfig::to_json() const { return write_config(*this); }
std::unique_ptr<Operator> make_operator(const ConvolutionConfig& config)
{
    return std::make_unique<Convolution>(config);
}

}  // namespace clprim
