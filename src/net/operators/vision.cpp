// Interpolation and the deformable operators.
#include <clprim/copy.hpp>
#include <clprim/deform_conv.hpp>
#include <clprim/psroi_pool.hpp>
#include <clprim/resample.hpp>

#include <cmath>

#include "net/fields.hpp"
#include "net/operators/initialize.hpp"

namespace clprim {

template <class F>
void fields(F& f, InterpolationConfig& c)
{
    f.required("method", c.method);
    f("out_h", c.out_h);
    f("out_w", c.out_w);
    f("scale_y", c.scale_y);
    f("scale_x", c.scale_x);
    f("align_corners", c.align_corners);
}
template <class F>
void fields(F& f, DeformConv2DConfig& c)
{
    f.required("channels_out", c.channels_out);
    f("channels_in", c.channels_in);
    f("groups", c.groups);
    f("offset_groups", c.offset_groups);
    f.required("kernel", c.kernel);
    f("stride", c.stride);
    f("pad", c.pad);
    f("dilate", c.dilate);
    f("bias", c.bias);
}
template <class F>
void fields(F& f, DeformPSROIPoolingConfig& c)
{
    f("no_trans", c.no_trans);
    f("spatial_scale", c.spatial_scale);
    f("trans_std", c.trans_std);
    f("output_dim", c.output_dim);
    f("group_size", c.group_size);
    f("pooled_size", c.pooled_size);
    f("part_size", c.part_size);
    f("sample_per_part", c.sample_per_part);
}

namespace {

class Interpolation : public ConfiguredOperator<InterpolationConfig> {
public:
    Interpolation(const char* type, const InterpolationConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.method == "nearest" || c.method == "nearest-exact" || c.method == "bilinear",
                "option \"method\" must be nearest, nearest-exact or bilinear, got ", c.method);
        const bool sizes = c.out_h > 0 && c.out_w > 0, scales = c.scale_y > 0 && c.scale_x > 0;
        require(sizes != scales, "either out_h and out_w, or scale_y and scale_x must be positive");
        how_.filter = c.method == "nearest" ? Filter::nearest
                      : c.method == "bilinear" ? Filter::linear
                                               : Filter::nearest_exact;
        require(!c.align_corners || how_.filter == Filter::linear, "option \"align_corners\" is for method bilinear");
        how_.align_corners = c.align_corners;
        if (scales)
            how_.scale_factors = {c.scale_y, c.scale_x, 0};
    }
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require_floating(inputs[0]);
        TensorSpec y = inputs[0];
        require(y.shape.size() == 4 && y.shape.product() > 0,
                "input must be (N, C, H, W), none of them empty, got shape ", to_string(y.shape));
        const std::int64_t sizes[] = {config.out_h, config.out_w};
        for (std::size_t i = 0; i < 2; ++i) {
            const double scaled = std::floor(static_cast<double>(y.shape[2 + i]) * how_.scale_factors[i]);
            const bool by_scale = how_.scale_factors[i] > 0;
            require(!by_scale || (scaled >= 1 && scaled < 2147483648.0), "an axis of size ", y.shape[2 + i],
                    " cannot be scaled by ", how_.scale_factors[i]);
            y.shape[2 + i] = by_scale ? static_cast<std::int64_t>(scaled) : sizes[i];
        }
        return {y};
    }
    void forward(const OperatorCall& call) override { resample(call.queue, call.inputs[0], call.outputs[0], how_); }
    void backward(const OperatorCall& call) override
    {
        resample_backward(call.queue, call.output_gradients[0], call.input_gradients[0], how_);
    }

private:
    Resampling how_;
};

class DeformConvolution : public ConfiguredOperator<DeformConv2DConfig> {
public:
    DeformConvolution(const char* type, const DeformConv2DConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.channels_out > 0 && c.groups > 0 && c.offset_groups > 0,
                "options \"channels_out\", \"groups\" and \"offset_groups\" must be positive");
        const Dims kernel = per_axis(c.kernel, 2, 1, "kernel"), stride = per_axis(c.stride, 2, 1, "stride");
        const Dims pad = per_axis(c.pad, 2, 0, "pad"), dilate = per_axis(c.dilate, 2, 1, "dilate");
        for (std::size_t i = 0; i < 2; ++i) {
            require(kernel[i] > 0 && stride[i] > 0 && dilate[i] > 0 && pad[i] >= 0,
                    "kernel, stride and dilate must be ", "positive, pad not negative");
            parameters_.stride[i] = stride[i];
            parameters_.padding[i] = pad[i];
            parameters_.dilation[i] = dilate[i];
            kernel_[i] = kernel[i];
        }
        parameters_.groups = c.groups;
        parameters_.offset_groups = c.offset_groups;
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        check(inputs);
        std::vector<Tensor> shapes;   // tensors without memory: only their shapes count
        for (const TensorSpec& spec : inputs)
            shapes.emplace_back(Memory(), spec.dtype, spec.shape);
        const std::vector<TensorSpec> specs = parameters(inputs);
        std::vector<Tensor> weights;
        for (const TensorSpec& spec : specs)
            weights.emplace_back(borrow(&nowhere_), spec.dtype, spec.shape);
        for (Tensor& shape : shapes)
            shape.memory = borrow(&nowhere_);
        return {{deform_conv2d_shape(parameters_, arguments(shapes, weights)), inputs[0].dtype}};
    }

    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        check(inputs);
        const TensorSpec& x = inputs[0];
        std::vector<TensorSpec> specs{
            {{config.channels_out, x.shape[1] / config.groups, kernel_[0], kernel_[1]}, x.dtype}};
        if (config.bias)
            specs.push_back({{config.channels_out}, x.dtype});
        return specs;
    }

    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random) override
    {
        const Tensor& w = parameters[0];
        uniform_by_fan_in(queue, parameters, w.numel() / w.size(0), random);
    }

    void forward(const OperatorCall& call) override
    {
        deform_conv2d(call.queue, parameters_, arguments(call.inputs, call.parameters), call.outputs[0]);
    }

    void backward(const OperatorCall& call) override
    {
        DeformConv2DGradients gradients{
            call.input_gradients[0], call.input_gradients[1], {}, call.parameter_gradients[0], {}};
        if (call.inputs.size() > 2)
            gradients.mask = call.input_gradients[2];
        if (config.bias)
            gradients.bias = call.parameter_gradients[1];
        deform_conv2d_backward(call.queue, parameters_, arguments(call.inputs, call.parameters),
                               call.output_gradients[0], gradients);
    }

private:
    void check(std::span<const TensorSpec> inputs) const
    {
        require(inputs.size() == 2 || inputs.size() == 3, "takes x, offset and perhaps mask, got ", inputs.size(),
                " inputs");
        require_floating(inputs[0]);
        const Dims& x = inputs[0].shape;
        require(x.size() == 4, "input must be (N, C, H, W), got shape ", to_string(x));
        require(config.channels_in == 0 || config.channels_in == x[1], "input of shape ", to_string(x),
                " does not have the ", config.channels_in, " channels of option \"channels_in\"");
        require(x[1] > 0 && x[1] % config.groups == 0, "option \"groups\" (", config.groups,
                ") must divide the input's ", x[1], " channels");
    }
    DeformConv2DInputs arguments(std::span<const Tensor> inputs, std::span<const Tensor> parameters) const
    {
        return {inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : Tensor(), parameters[0],
                config.bias ? parameters[1] : Tensor()};
    }

    DeformConv2D parameters_;
    std::int64_t kernel_[2] = {};
    Block nowhere_;
};

class DeformPooling : public ConfiguredOperator<DeformPSROIPoolingConfig> {
public:
    DeformPooling(const char* type, const DeformPSROIPoolingConfig& c)
        : ConfiguredOperator(type, c),
          parameters_{c.no_trans,        c.spatial_scale, c.output_dim,
                      c.group_size,      c.pooled_size,   c.part_size ? c.part_size : c.pooled_size,
                      c.sample_per_part, c.trans_std}
    {
        require(c.output_dim > 0 && c.group_size > 0 && c.pooled_size > 0 && c.part_size >= 0 && c.sample_per_part > 0,
                "output_dim, group_size, pooled_size, part_size and sample_per_part must be positive");
    }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, config.no_trans ? 2 : 3);
        Tensor shapes[3];
        for (std::size_t i = 0; i < inputs.size(); ++i)
            shapes[i] = Tensor(borrow(&nowhere_), inputs[i].dtype, inputs[i].shape);
        return {{deform_psroi_pooling_shape(parameters_, shapes[0], shapes[1], shapes[2]), inputs[0].dtype}};
    }
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override { return outputs(inputs); }

    void forward(const OperatorCall& call) override
    {
        const Tensor& y = call.outputs[0];
        const Tensor count =
            call.saved.empty() ? call.queue.context().empty(y.shape, y.dtype, call.queue) : call.saved[0];
        deform_psroi_pooling(call.queue, parameters_, call.inputs[0], call.inputs[1], trans(call.inputs), y, count);
    }
    void backward(const OperatorCall& call) override
    {
        // The kernel writes both gradients; those that are not wanted go nowhere.
        const auto target = [&](std::size_t i) {
            const Tensor& wanted = call.input_gradients[i];
            return wanted.defined()
                       ? wanted
                       : call.queue.context().empty(call.inputs[i].shape, call.inputs[i].dtype, call.queue);
        };
        deform_psroi_pooling_backward(call.queue, parameters_, call.output_gradients[0], call.inputs[0], call.inputs[1],
                                      trans(call.inputs), call.saved[0], target(0),
                                      config.no_trans ? Tensor() : target(2));
        if (call.input_gradients[1].defined())
            fill(call.queue, call.input_gradients[1], 0);   // boxes are constants
    }

private:
    Tensor trans(std::span<const Tensor> inputs) const { return config.no_trans ? Tensor() : inputs[2]; }

    DeformPSRoiPooling parameters_;
    Block nowhere_;
};

}  // namespace

CLPRIM_OPERATOR(InterpolationConfig, Interpolation, "Interpolation")
CLPRIM_OPERATOR(DeformConv2DConfig, DeformConvolution, "DeformConv2D")
CLPRIM_OPERATOR(DeformPSROIPoolingConfig, DeformPooling, "DeformPSROIPooling")

}  // namespace clprim
