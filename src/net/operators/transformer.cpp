// Layers of transformers: products along the last axis and of two tensors, norms, embeddings, attention.
#include <cmath>

#include <clprim/attention.hpp>
#include <clprim/gemm.hpp>
#include <clprim/index.hpp>
#include <clprim/norm.hpp>
#include <clprim/reduce.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"
#include "net/operators/initialize.hpp"

namespace clprim {

template <class F>
void fields(F& f, LinearConfig& c)
{
    f.required("outputs", c.outputs);
    f("bias", c.bias);
}
template <class F>
void fields(F& f, MatMulConfig& c)
{
    f("transpose_a", c.transpose_a);
    f("transpose_b", c.transpose_b);
    f("scale", c.scale);
}
template <class F>
void fields(F& f, LayerNormConfig& c)
{
    f("eps", c.eps);
    f("rms", c.rms);
    f("bias", c.bias);
}
template <class F>
void fields(F& f, EmbeddingConfig& c)
{
    f.required("count", c.count);
    f.required("size", c.size);
}
template <class F>
void fields(F& f, AttentionConfig& c)
{
    f.required("heads", c.heads);
    f("causal", c.causal);
    f("scale", c.scale);
    f("dropout", c.dropout);
}
template <class F>
void fields(F& f, PermuteConfig& c)
{
    f.required("dims", c.dims);
}

namespace {

// [..., n] as [rows, n].
Tensor rows_of(const Tensor& t)
{
    const std::int64_t n = t.shape.back();
    return t.reshape({n ? t.numel() / n : 0, n});
}

const Dims& require_axes(const TensorSpec& spec, std::size_t least, const char* what)
{
    require_floating(spec, what);
    require(spec.shape.size() >= least, what, " must have ", least, " or more axes, got shape ", to_string(spec.shape));
    return spec.shape;
}

class Linear : public ConfiguredOperator<LinearConfig> {
public:
    Linear(const char* type, const LinearConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.outputs > 0, "option \"outputs\" must be positive, got ", c.outputs);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        Dims shape = require_axes(inputs[0], 1, "input");
        require(shape.back() > 0, "input of shape ", to_string(shape), " has no features");
        shape[shape.size() - 1] = config.outputs;
        return {{shape, inputs[0].dtype}};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        std::vector<TensorSpec> specs{{{config.outputs, inputs[0].shape.back()}, inputs[0].dtype}};
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
        const Tensor x = rows_of(call.inputs[0]), y = rows_of(call.outputs[0]), w = call.parameters[0].transpose(0, 1);
        const Tensor bias = config.bias ? call.parameters[1] : Tensor();
        gemm(call.queue, gemm_problem(x, w, y, bias), x, w, y, bias);
    }
    void backward(const OperatorCall& call) override
    {
        const Tensor dy = rows_of(call.output_gradients[0]), x = rows_of(call.inputs[0]), &w = call.parameters[0];
        if (call.input_gradients[0].defined()) {
            const Tensor dx = rows_of(call.input_gradients[0]);
            gemm(call.queue, gemm_problem(dy, w, dx), dy, w, dx);
        }
        if (const Tensor& dw = call.parameter_gradients[0]; dw.defined()) {
            const Tensor transposed = dy.transpose(0, 1);
            gemm(call.queue, gemm_problem(transposed, x, dw), transposed, x, dw);
        }
        if (config.bias && call.parameter_gradients[1].defined()) {
            const Input inputs[] = {dy};
            const Tensor sums[] = {call.parameter_gradients[1].reshape({1, config.outputs})};
            reduce(call.queue, reduce_row("sum"), {inputs, sums, {}, dy.dtype});
        }
    }
};

class MatMul : public ConfiguredOperator<MatMulConfig> {
public:
    MatMul(const char* type, const MatMulConfig& c) : ConfiguredOperator(type, c) {}

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 2);
        const Dims &a = require_axes(inputs[0], 2, "input 0"), &b = require_axes(inputs[1], 2, "input 1");
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

class LayerNormOperator : public ConfiguredOperator<LayerNormConfig> {
public:
    LayerNormOperator(const char* type, const LayerNormConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.eps >= 0, "option \"eps\" must not be negative, got ", c.eps);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require(require_axes(inputs[0], 1, "input").back() > 0, "input of shape ", to_string(inputs[0].shape),
                " has nothing to normalise");
        return {{inputs[0].shape, inputs[0].dtype}};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec> inputs) override
    {
        return {has_bias() ? 2u : 1u, {{inputs[0].shape.back()}, inputs[0].dtype}};
    }
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        const DataType type = inputs[0].dtype == DataType::float64 ? DataType::float64 : DataType::float32;
        return {2, {{inputs[0].shape.product() / inputs[0].shape.back()}, type, false}};   // mean, rstd
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
            const DataType type = problem.x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
            return call.queue.context().empty({problem.x.numel() / problem.n}, type, call.queue);
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

class Embedding : public ConfiguredOperator<EmbeddingConfig> {
public:
    Embedding(const char* type, const EmbeddingConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.count > 0 && c.size > 0, "options \"count\" and \"size\" must be positive, got ", c.count, " and ",
                c.size);
    }
    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require_inputs(inputs, 1);
        require(inputs[0].dtype == DataType::int32 || inputs[0].dtype == DataType::int64,
                "input must be int32 or int64, got ", name_of(inputs[0].dtype));
        Dims shape = inputs[0].shape;
        shape.push_back(config.size);
        return {{shape, DataType::float32}};
    }
    std::vector<TensorSpec> parameters(std::span<const TensorSpec>) override
    {
        return {{{config.count, config.size}, DataType::float32}};
    }
    void initialize(Queue& queue, std::span<const Tensor> parameters, PhiloxState& random) override
    {
        random_fill(queue, parameters[0], Distribution::normal, 0, 1, random);
        ++random.offset;
    }
    void forward(const OperatorCall& call) override
    {
        if (call.outputs[0].numel())
            index_select(call.queue, call.parameters[0], along(), flat(call.inputs[0]), rows_of(call.outputs[0]));
    }
    void backward(const OperatorCall& call) override
    {
        const Tensor& dw = call.parameter_gradients[0];
        if (!dw.defined())
            return;
        fill(call.queue, dw, 0);
        index_reduce(call.queue, dw, along(), flat(call.inputs[0]), rows_of(call.output_gradients[0]),
                     IndexReduce::sum);
    }

private:
    static Along along() { return {0, NegativeIndex::refused, "Embedding"}; }
    static Tensor flat(const Tensor& t) { return t.reshape({t.numel()}); }
};

class AttentionOperator : public ConfiguredOperator<AttentionConfig> {
public:
    AttentionOperator(const char* type, const AttentionConfig& c) : ConfiguredOperator(type, c)
    {
        require(c.heads > 0, "option \"heads\" must be positive, got ", c.heads);
        require(c.dropout >= 0 && c.dropout < 1, "option \"dropout\" must lie in [0, 1), got ", c.dropout);
    }
    OperatorTraits traits() const override { return {.backward_reads_outputs = true}; }

    std::vector<TensorSpec> outputs(std::span<const TensorSpec> inputs) override
    {
        require(inputs.size() == 3 || inputs.size() == 4, "takes query, key, value and perhaps a mask, got ",
                inputs.size(), " inputs");
        for (std::size_t i = 0; i < 3; ++i) {
            require_floating(inputs[i]);
            const Dims& shape = inputs[i].shape;
            require(shape.size() == 3 && shape[2] > 0 && shape[2] % config.heads == 0 &&
                        inputs[i].dtype == inputs[0].dtype,
                    "input ", i, " must have shape [N, length, features] with features for ", config.heads,
                    " heads and one dtype, got ", name_of(inputs[i].dtype), " ", to_string(shape));
        }
        const Dims &q = inputs[0].shape, &k = inputs[1].shape, &v = inputs[2].shape;
        require(q[0] == k[0] && q[2] == k[2] && v[0] == k[0] && v[1] == k[1], "query ", to_string(q), ", key ",
                to_string(k), " and value ", to_string(v), " do not fit");
        if (inputs.size() == 4)
            require(inputs[3].dtype == inputs[0].dtype && inputs[3].shape.size() == 4 &&
                        broadcast(inputs[3].shape, {q[0], config.heads, q[1], k[1]}) ==
                            Dims{q[0], config.heads, q[1], k[1]},
                    "the mask has shape ", to_string(inputs[3].shape), ", expected one that broadcasts to ",
                    to_string(Dims{q[0], config.heads, q[1], k[1]}));
        return {{{q[0], q[1], v[2]}, inputs[0].dtype}};
    }
    std::vector<TensorSpec> saved(std::span<const TensorSpec> inputs) override
    {
        const Dims& q = inputs[0].shape;
        const DataType type = inputs[0].dtype == DataType::float64 ? DataType::float64 : DataType::float32;
        return {{{q[0], config.heads, q[1]}, type, false}};
    }
    void forward(const OperatorCall& call) override
    {
        if (call.outputs[0].numel())
            attention(call.queue, problem(call), heads_of(call.outputs[0]),
                      call.saved.empty() ? Tensor() : call.saved[0]);
    }
    void backward(const OperatorCall& call) override
    {
        const auto gradient = [&](std::size_t i) {
            return call.input_gradients[i].defined() ? heads_of(call.input_gradients[i]) : Tensor();
        };
        require<NotSupported>(call.inputs.size() == 3 || !call.input_gradients[3].defined(),
                              "a mask has no gradient");
        attention_backward(call.queue, problem(call),
                           {heads_of(call.outputs[0]), call.saved[0], heads_of(call.output_gradients[0])},
                           {gradient(0), gradient(1), gradient(2)});
    }

private:
    // [N, L, H E] as [N, H, L, E].
    Tensor heads_of(const Tensor& t) const
    {
        return t.reshape({t.size(0), t.size(1), config.heads, t.size(2) / config.heads}).permute({0, 2, 1, 3});
    }
    Attention problem(const OperatorCall& call) const
    {
        Attention result;
        result.query = heads_of(call.inputs[0]);
        result.key = heads_of(call.inputs[1]);
        result.value = heads_of(call.inputs[2]);
        if (call.inputs.size() == 4)
            result.mask = call.inputs[3];
        result.scale = config.scale != 0 ? config.scale : 1 / std::sqrt(static_cast<double>(result.query.size(3)));
        result.causal = config.causal;
        result.dropout = call.mode == NetMode::train ? config.dropout : 0;
        result.state = {call.seed, 0};
        return result;
    }
};

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

CLPRIM_OPERATOR(LinearConfig, Linear, "Linear")
CLPRIM_OPERATOR(MatMulConfig, MatMul, "MatMul")
CLPRIM_OPERATOR(LayerNormConfig, LayerNormOperator, "LayerNorm")
CLPRIM_OPERATOR(EmbeddingConfig, Embedding, "Embedding")
CLPRIM_OPERATOR(AttentionConfig, AttentionOperator, "Attention")
CLPRIM_OPERATOR(PermuteConfig, Permute, "Permute")

}  // namespace clprim
