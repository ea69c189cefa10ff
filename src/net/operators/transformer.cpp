// Embeddings and attention.
#include <cmath>

#include <clprim/attention.hpp>
#include <clprim/copy.hpp>
#include <clprim/index.hpp>
#include <clprim/random.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"

namespace clprim {

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

namespace {

// [..., n] as [rows, n].
Tensor rows_of(const Tensor& t)
{
    const std::int64_t n = t.shape.back();
    return t.reshape({n ? t.numel() / n : 0, n});
}

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

}  // namespace

CLPRIM_OPERATOR(EmbeddingConfig, Embedding, "Embedding")
CLPRIM_OPERATOR(AttentionConfig, AttentionOperator, "Attention")

}  // namespace clprim
