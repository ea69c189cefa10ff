// Operators that move elements: concatenation, slices, other shapes, axes in another order, parameters as tensors.
#include <clprim/concat.hpp>
#include <clprim/copy.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"

namespace clprim {

template <class F>
void fields(F& f, ConcatConfig& c)
{
    f("dim", c.dim);
}
template <class F>
void fields(F& f, SliceConfig& c)
{
    f("dim", c.dim);
    f("begin", c.begin);
    f("end", c.end);
}
template <class F>
void fields(F&, FlattenConfig&)
{
}
template <class F>
void fields(F& f, SqueezeConfig& c)
{
    f("dims", c.dims);
    f("all", c.all);
}
template <class F>
void fields(F& f, ReshapeConfig& c)
{
    f.required("dims", c.dims);
}
template <class F>
void fields(F& f, ParameterConfig& c)
{
    f.required("shape", c.shape);
    f("dtype", c.dtype);
    f("is_trainable", c.is_trainable);
}
template <class F>
void fields(F& f, PermuteConfig& c)
{
    f.required("dims", c.dims);
}

namespace {

std::size_t axis_of(std::int64_t dim, const Dims& shape)
{
    const auto rank = static_cast<std::int64_t>(shape.size());
    require(dim >= -rank && dim < rank, "option \"dim\" (", dim, ") is out of range for shape ", to_string(shape));
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

class Concat : public ConfiguredOperator<ConcatConfig> {
public:
    using ConfiguredOperator::ConfiguredOperator;
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require(!inputs.empty(), "takes at least one input");
        TensorSpec y = inputs[0];
        axis_ = axis_of(config.dim, y.shape);
        for (const TensorSpec& x : inputs.subspan(1)) {
            Dims same = x.shape;
            if (same.size() == y.shape.size())
                same[axis_] = y.shape[axis_];
            require(same == y.shape && x.dtype == y.dtype, "input of shape ", to_string(x.shape), " (",
                    name_of(x.dtype), ") does not fit ", to_string(inputs[0].shape), " (", name_of(y.dtype),
                    ") along axis ", axis_);
            y.shape[axis_] += x.shape[axis_];
        }
        return {y};
    }
    void forward(const OperatorCall& call) override { concat(call.queue, call.inputs, axis_, call.outputs[0]); }
    void backward(const OperatorCall& call) override
    {
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
            const std::int64_t end = begin + call.inputs[i].size(axis_);
            if (call.input_gradients[i].defined())
                copy(call.queue, call.output_gradients[0].slice(axis_, begin, end), call.input_gradients[i]);
            begin = end;
        }
    }

private:
    std::size_t axis_ = 0;
};

class Slice : public ConfiguredOperator<SliceConfig> {
public:
    using ConfiguredOperator::ConfiguredOperator;
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        TensorSpec y = inputs[0];
        axis_ = axis_of(config.dim, y.shape);
        const std::int64_t size = y.shape[axis_];
        begin_ = config.begin < 0 ? config.begin + size : config.begin;
        end_ = config.end == -1 ? size : config.end < 0 ? config.end + size : config.end;
        require(0 <= begin_ && begin_ < end_ && end_ <= size, "options \"begin\" (", config.begin, ") and \"end\" (",
                config.end, ") do not fit an axis of size ", size);
        y.shape[axis_] = end_ - begin_;
        return {y};
    }
    void forward(const OperatorCall& call) override
    {
        copy(call.queue, call.inputs[0].slice(axis_, begin_, end_), call.outputs[0]);
    }
    void backward(const OperatorCall& call) override
    {
        const Tensor& dx = call.input_gradients[0];
        fill(call.queue, dx, 0);
        copy(call.queue, call.output_gradients[0], dx.slice(axis_, begin_, end_));
    }

private:
    std::size_t axis_ = 0;
    std::int64_t begin_ = 0, end_ = 0;
};

// The input's memory under another shape.
template <class Config, Dims (*shape_of)(const Config&, const Dims&)>
class View : public ConfiguredOperator<Config> {
public:
    using ConfiguredOperator<Config>::ConfiguredOperator;
    OperatorTraits traits() const override { return {.alias = true, .backward_reads_inputs = false}; }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        return {{shape_of(this->config, inputs[0].shape), inputs[0].dtype}};
    }
    void forward(const OperatorCall& call) override
    {
        copy(call.queue, call.inputs[0].reshape(call.outputs[0].shape), call.outputs[0]);
    }
    void backward(const OperatorCall& call) override
    {
        const Tensor& dx = call.input_gradients[0];
        copy(call.queue, call.output_gradients[0].reshape(dx.shape), dx);
    }
};

Dims flat_shape(const FlattenConfig&, const Dims& x)
{
    require(!x.empty(), "input must have a batch dimension");
    std::int64_t rest = 1;
    for (std::size_t i = 1; i < x.size(); ++i)
        rest *= x[i];
    return {x[0], rest};
}

Dims squeezed_shape(const SqueezeConfig& c, const Dims& x)
{
    std::vector<bool> gone(x.size());
    for (const std::int64_t dim : c.dims) {
        const std::size_t axis = axis_of(dim, x);
        require(x[axis] == 1, "axis ", dim, " of shape ", to_string(x), " is not of size 1");
        gone[axis] = true;
    }
    Dims y;
    for (std::size_t i = 0; i < x.size(); ++i)
        if (!gone[i] && (x[i] != 1 || !(c.all || c.dims.empty())))
            y.push_back(x[i]);
    return y;
}

Dims reshaped(const ReshapeConfig& c, const Dims& x)
{
    Dims y = c.dims;
    std::int64_t known = 1, total = x.product();
    std::size_t open = y.size();
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (y[i] == 0) {
            require(i < x.size(), "option \"dims\" ", to_string(c.dims), " keeps an axis that shape ", to_string(x),
                    " lacks");
            y[i] = x[i];
        }
        require(y[i] >= -1 && (y[i] != -1 || open == y.size()), "option \"dims\" ", to_string(c.dims),
                " must hold sizes, 0, and -1 at most once");
        if (y[i] == -1)
            open = i;
        else
            require(!__builtin_mul_overflow(known, y[i], &known), "option \"dims\" ", to_string(c.dims),
                    " is too large");
    }
    require(open == y.size() ? known == total : known > 0 && total % known == 0, "option \"dims\" ", to_string(c.dims),
            " does not hold the ", total, " elements of shape ", to_string(x));
    if (open < y.size())
        y[open] = total / known;
    return y;
}

class ParameterOperator : public ConfiguredOperator<ParameterConfig> {
public:
    ParameterOperator(const char* type, const ParameterConfig& c)
        : ConfiguredOperator(type, c), spec_{c.shape, net_data_type(c.dtype), c.is_trainable}
    {
        require(!c.is_trainable || is_floating_point(spec_.dtype), "a trainable parameter must be floating-point, got ",
                c.dtype);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 0);
        return {spec_};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec>) override { return {spec_}; }
    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState&) override
    {
        fill(queue, parameters[0], 0);
    }
    void forward(const OperatorCall& call) override { copy(call.queue, call.parameters[0], call.outputs[0]); }
    void backward(const OperatorCall& call) override
    {
        if (call.parameter_gradients[0].defined())
            copy(call.queue, call.output_gradients[0], call.parameter_gradients[0]);
    }

private:
    TensorSpec spec_;
};

using Flatten = View<FlattenConfig, flat_shape>;
using Squeeze = View<SqueezeConfig, squeezed_shape>;
using Reshape = View<ReshapeConfig, reshaped>;

class Permute : public ConfiguredOperator<PermuteConfig> {
public:
    Permute(const char* type, const PermuteConfig& c) : ConfiguredOperator(type, c)
    {
        std::vector<bool> seen(c.dims.size());
        for (const std::int64_t axis : c.dims) {
            require(axis >= 0 && axis < static_cast<std::int64_t>(seen.size()) && !seen[static_cast<std::size_t>(axis)],
                    "option \"dims\" must hold each axis once, got ", to_string(c.dims));
            seen[static_cast<std::size_t>(axis)] = true;
        }
    }
    OperatorTraits traits() const override { return {.backward_reads_inputs = false}; }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require(inputs[0].shape.size() == config.dims.size(), "input of shape ", to_string(inputs[0].shape),
                " has not the ", config.dims.size(), " axes of option \"dims\"");
        return {{permuted(inputs[0].shape), inputs[0].dtype}};
    }
    void forward(const OperatorCall& call) override
    {
        if (call.inputs[0].numel())
            copy(call.queue, view(call.inputs[0]), call.outputs[0]);
    }
    void backward(const OperatorCall& call) override
    {
        copy(call.queue, call.output_gradients[0], view(call.input_gradients[0]));
    }

private:
    Dims permuted(const Dims& sizes) const
    {
        Dims result = sizes;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            result[i] = sizes[static_cast<std::size_t>(config.dims[i])];
        return result;
    }
    Tensor view(const Tensor& t) const
    {
        Tensor result = t;
        result.shape = permuted(t.shape);
        result.strides = permuted(t.strides);
        return result;
    }
};

}  // namespace

CLPRIM_OPERATOR(ConcatConfig, Concat, "Concat")
CLPRIM_OPERATOR(SliceConfig, Slice, "Slice")
CLPRIM_OPERATOR(FlattenConfig, Flatten, "Flatten")
CLPRIM_OPERATOR(SqueezeConfig, Squeeze, "Squeeze")
CLPRIM_OPERATOR(ReshapeConfig, Reshape, "Reshape")
CLPRIM_OPERATOR(ParameterConfig, ParameterOperator, "Parameter")
CLPRIM_OPERATOR(PermuteConfig, Permute, "Permute")

}  // namespace clprim
