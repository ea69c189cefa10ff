// Fusions of what stands behind convolutions and products of matrices.
#include <algorithm>
#include <cmath>
#include <optional>

#include <clprim/error.hpp>

#include "onnx/call.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/patterns.hpp"

namespace clprim::onnx {

namespace {

// A node of our own making; its name says what it stands for.
Node fused_node(std::string_view domain, std::string_view op_type, const Node& first, const Node& last)
{
    Node node;
    node.domain = domain;
    node.op_type = op_type;
    node.opset = 1;
    node.name = first.name + (&first == &last ? "" : ".." + last.name);
    node.attributes = first.attributes;
    node.inputs = first.inputs;
    node.outputs = {last.outputs[0]};
    node.row = find_operator(node.domain, node.op_type, 1);
    return node;
}

template <class T>
T checked_attribute_of(const Node& node, std::string_view name, T otherwise)
{
    if (!node.attributes.contains(name))
        return otherwise;
    const T* value = find_attribute<T>(node, name);
    require(value != nullptr, node.op_type, " '", node.name, "': attribute ", name, " has the wrong type");
    return *value;
}
float float_of(const Node& node, std::string_view name, float otherwise)
{
    return checked_attribute_of(node, name, otherwise);
}
std::int64_t int_of(const Node& node, std::string_view name, std::int64_t otherwise)
{
    return checked_attribute_of(node, name, otherwise);
}

// ---- convolution, batch norm, residual, activation ----

struct FusedActivation {
    std::string name;
    std::vector<float> parameters;
};

// The activation that a node applies to its first input, if a convolution can.
std::optional<FusedActivation> activation_of(const Rewriter& rewriter, const Node& node)
{
    // TensorFlow writes bounds as extremes.
    if (node.inputs.size() == 2 && (is_plain(node, "Max", 2) || is_plain(node, "Min", 2))) {
        const auto bound = node.opset >= 8 ? scalar_constant(rewriter, node, 1) : std::nullopt;
        if (!bound || std::isnan(*bound) || rewriter.constant(node.inputs[1])->dim() > 3)
            return std::nullopt;         // of more axes than a convolution's result it would lend it some
        const bool least = node.op_type == "Max";
        return FusedActivation{"Clip", {least ? *bound : -INFINITY, least ? INFINITY : *bound}};
    }
    if (is_plain(node, "Relu") || is_plain(node, "Sigmoid") || is_plain(node, "HardSwish"))
        return FusedActivation{node.op_type, {}};
    if (is_plain(node, "LeakyRelu"))
        return FusedActivation{node.op_type, {float_of(node, "alpha", 0.01f)}};
    if (is_plain(node, "HardSigmoid"))
        return FusedActivation{node.op_type, {float_of(node, "alpha", 0.2f), float_of(node, "beta", 0.5f)}};
    if (const Activation gelu = gelu_of(node); gelu != Activation::none)
        return FusedActivation{gelu == Activation::gelu ? "Gelu" : "GeluTanh", {}};
    if (!is_plain(node, "Clip"))
        return std::nullopt;
    const bool by_input = node.opset >= 11;
    float bounds[2] = {-INFINITY, INFINITY};
    for (std::size_t i = 0; i < 2; ++i) {
        if (!by_input)
            bounds[i] = float_of(node, i ? "max" : "min", bounds[i]);
        else if (i + 1 < node.inputs.size() && node.inputs[i + 1] != absent) {
            const auto bound = scalar_constant(rewriter, node, i + 1);
            if (!bound)
                return std::nullopt;
            bounds[i] = *bound;
        }
    }
    return FusedActivation{"Clip", {bounds[0], bounds[1]}};
}

// x * sigmoid(x): two readers, of which one reads the other.
std::vector<std::size_t> silu_after(Rewriter& rewriter, int slot)
{
    if (rewriter.exposed(slot) || rewriter.readers(slot).size() != 2)
        return {};
    const std::size_t a = rewriter.readers(slot)[0], b = rewriter.readers(slot)[1];
    const Node &sigmoid = rewriter.node(a), &mul = rewriter.node(b);
    const bool fits = is_plain(sigmoid, "Sigmoid") && is_plain(mul, "Mul", 2) &&
                      rewriter.only_reader(sigmoid.outputs[0]) == &mul && std::ranges::count(mul.inputs, slot) == 1;
    return fits ? std::vector{a, b} : std::vector<std::size_t>{};
}

class ConvolutionFusion {
public:
    ConvolutionFusion(Rewriter& rewriter, std::size_t at) : rewriter_(rewriter), taken_{at}, conv_(rewriter.node(at)) {}

    bool run()
    {
        weight_ = rewriter_.constant(conv_.inputs[1]);
        bias_ = conv_.inputs.size() > 2 ? conv_.inputs[2] : absent;
        if (!weight_ || !weight_->is_tensor() || weight_->dim() < 3)
            return false;
        while (take_next()) {
        }
        if (taken_.size() == 1)
            return false;
        const Node& last = rewriter_.node(taken_.back());
        Node fused = fused_node("com.microsoft", "FusedConv", conv_, last);
        if (new_weight_)
            fused.inputs[1] = rewriter_.add_constant(*new_weight_);
        if (new_bias_)
            bias_ = rewriter_.add_constant(*new_bias_);
        fused.inputs.resize(2);
        fused.inputs.push_back(bias_);
        if (residual_ != absent)
            fused.inputs.push_back(residual_);
        if (activation_) {
            fused.attributes["activation"] = activation_->name;
            fused.attributes["activation_params"] = activation_->parameters;
        }
        rewriter_.replace(taken_, std::move(fused));
        return true;
    }

private:
    bool take_next()
    {
        const int slot = rewriter_.node(taken_.back()).outputs[0];
        if (activation_)
            return take_bounds(slot);
        if (const auto silu = silu_after(rewriter_, slot); !silu.empty()) {
            taken_.insert(taken_.end(), silu.begin(), silu.end());
            activation_ = FusedActivation{"Silu", {}};
            return true;
        }
        Node* next = rewriter_.only_reader(slot);
        if (!next || !(take_batch_norm(*next, slot) || take_bias(*next, slot) || take_residual(*next, slot) ||
                       take_activation(*next, slot)))
            return false;
        taken_.push_back(rewriter_.position(*next));
        return true;
    }

    bool take_activation(const Node& node, int slot)
    {
        const bool of_floats = weight_->type() == ElementType::float32;     // which files can say of any gelu
        if (node.inputs[0] == slot && (of_floats || node.domain.empty()))
            activation_ = activation_of(rewriter_, node);
        return activation_.has_value();
    }

    // Bounds of what has bounds already.
    bool take_bounds(int slot)
    {
        const Node* next = rewriter_.only_reader(slot);
        const bool bounded = activation_->name == "Relu" || activation_->name == "Clip";
        if (!bounded || !next || next->inputs[0] != slot)
            return false;
        auto outer = activation_of(rewriter_, *next);
        if (outer && outer->name == "Relu")
            outer = FusedActivation{"Clip", {0.0f, INFINITY}};
        if (!outer || outer->name != "Clip" || outer->parameters[0] > outer->parameters[1])
            return false;
        std::vector<float> bounds = activation_->name == "Relu" ? std::vector{0.0f, INFINITY} : activation_->parameters;
        for (float& bound : bounds)
            bound = std::clamp(bound, outer->parameters[0], outer->parameters[1]);
        activation_ = FusedActivation{"Clip", bounds};
        taken_.push_back(rewriter_.position(*next));
        return true;
    }

    // A constant of one number for each channel, or of one for all.
    bool take_bias(const Node& node, int slot)
    {
        if (!is_plain(node, "Add", 2) || node.opset < 7)
            return false;
        const Value* added = rewriter_.constant(node.inputs[node.inputs[0] == slot]);
        const std::size_t dims = weight_->dim();          // those of the result as well
        const std::int64_t channels = weight_->shape()[0];
        if (!added || !added->is_tensor() || added->dim() > dims || added->numel() < 1)
            return false;
        const std::int64_t count = added->numel();
        const bool along_channels = added->dim() + 1 >= dims && added->shape()[added->dim() + 1 - dims] == channels;
        const float* numbers = count == 1 || (count == channels && along_channels) ? float_data(added, count) : nullptr;
        const float* b = bias_data();
        if (!numbers || (!b && (bias_ != absent || new_bias_)))
            return false;
        Value sum = Value::zeros(ElementType::float32, {channels});
        const auto to = sum.mutable_host<float>();
        for (std::size_t c = 0; c < to.size(); ++c)
            to[c] = (b ? b[c] : 0.0f) + numbers[count == 1 ? 0 : c];
        new_bias_ = sum;
        return true;
    }

    // Null where there is none, or it may change.
    const float* bias_data() const
    {
        const std::int64_t channels = weight_->shape()[0];
        if (new_bias_)
            return float_data(&*new_bias_, channels);
        return bias_ == absent ? nullptr : float_data(rewriter_.constant(bias_), channels);
    }

    bool take_residual(const Node& node, int slot)
    {
        if (residual_ != absent || int_of(conv_, "group", 1) != 1 || !is_plain(node, "Add", 2) || node.opset < 7)
            return false;
        const int other = node.inputs[node.inputs[0] == slot];
        if (other == slot || rewriter_.constant(other))
            return false;
        residual_ = other;
        return true;
    }

    // w' = w scale / sqrt(var + eps) per output channel, b' = (b - mean) scale / sqrt(var + eps) + shift.
    bool take_batch_norm(const Node& node, int slot)
    {
        if (!is_plain(node, "BatchNormalization") || residual_ != absent || node.inputs.size() != 5 ||
            node.inputs[0] != slot || int_of(node, "training_mode", 0) != 0 || int_of(node, "spatial", 1) != 1)
            return false;
        const Value& weight = new_weight_ ? *new_weight_ : *weight_;
        const std::int64_t channels = weight.shape()[0];
        const float* w = float_data(&weight, weight.numel());
        const float* b = bias_data();
        const float* statistics[4];                       // scale, shift, mean, variance
        for (std::size_t i = 0; i < 4; ++i)
            if (!(statistics[i] = float_data(rewriter_.constant(node.inputs[1 + i]), channels)))
                return false;
        if (!w || (!b && (bias_ != absent || new_bias_)))
            return false;
        Value scaled = Value::zeros(ElementType::float32, weight.shape()),
              shifted = Value::zeros(ElementType::float32, {channels});
        const auto to = scaled.mutable_host<float>(), shift = shifted.mutable_host<float>();
        const std::size_t length = to.size() / static_cast<std::size_t>(channels);
        const double epsilon = float_of(node, "epsilon", 1e-5f);
        for (std::size_t c = 0; c < shift.size(); ++c) {
            const double factor = statistics[0][c] / std::sqrt(statistics[3][c] + epsilon);
            for (std::size_t i = c * length; i < (c + 1) * length; ++i)
                to[i] = static_cast<float>(w[i] * factor);
            shift[c] = static_cast<float>(((b ? b[c] : 0.0) - statistics[2][c]) * factor + statistics[1][c]);
        }
        new_weight_ = scaled;
        new_bias_ = shifted;
        return true;
    }

    Rewriter& rewriter_;
    std::vector<std::size_t> taken_;
    Node conv_;                                           // a copy: constants are added while it is looked at
    const Value* weight_ = nullptr;
    int bias_ = absent, residual_ = absent;
    std::optional<Value> new_weight_, new_bias_;
    std::optional<FusedActivation> activation_;
};

}  // namespace

void fuse_convolutions(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i)
        if (!rewriter.dead(i) && is_plain(rewriter.node(i), "Conv", 2))
            ConvolutionFusion(rewriter, i).run();
    rewriter.finish();
}

namespace {

// The bias that is added to the product of a matrix that never changes; null if none is.
const Node* bias_after(Rewriter& rewriter, const Node& product)
{
    const Value* weight = rewriter.constant(product.inputs[1]);
    const Node* add = rewriter.only_reader(product.outputs[0]);
    if (!weight || !weight->is_tensor() || weight->dim() != 2 || !add || !is_plain(*add, "Add", 2) || add->opset < 7)
        return nullptr;
    const Value* bias = rewriter.constant(add->inputs[add->inputs[0] == product.outputs[0]]);
    const bool fits = bias && bias->is_tensor() && bias->dim() == 1 && bias->shape()[0] == weight->shape()[1] &&
                      bias->type() == weight->type();
    return fits ? add : nullptr;
}

// What a product of matrices applies to its result, if the only reader of a slot is that.
const Node* activation_after(Rewriter& rewriter, int slot)
{
    const Node* next = rewriter.only_reader(slot);
    return next && (is_plain(*next, "Relu") || gelu_of(*next) != Activation::none) ? next : nullptr;
}

bool is_floating(const Value* value)
{
    return value && value->is_tensor() && class_of(storage_type(value->type())) == floating;
}

void fuse_product(Rewriter& rewriter, std::size_t at)
{
    const Node& product = rewriter.node(at);
    const bool is_gemm = is_plain(product, "Gemm", 2) && product.opset >= 7;
    const Node* add = is_plain(product, "MatMul", 2) ? bias_after(rewriter, product) : nullptr;
    if (!is_gemm && !add)
        return;
    std::vector<std::size_t> members{at};
    if (add)
        members.push_back(rewriter.position(*add));
    const Node* activation = is_floating(rewriter.constant(product.inputs[1]))
                                 ? activation_after(rewriter, rewriter.node(members.back()).outputs[0]) : nullptr;
    if (activation)
        members.push_back(rewriter.position(*activation));
    if (members.size() == 1)
        return;
    Node fused = fused_node("clprim", is_gemm ? "Gemm" : "Linear", product, rewriter.node(members.back()));
    fused.opset = product.opset;
    if (add)
        fused.inputs.push_back(add->inputs[add->inputs[0] == product.outputs[0]]);
    if (activation) {
        const Activation gelu = gelu_of(*activation);
        fused.attributes["activation"] = std::string(gelu == Activation::gelu        ? "Gelu"
                                                     : gelu == Activation::gelu_tanh ? "GeluTanh"
                                                                                     : "Relu");
        fused.attributes["operators"] = rewriter.body_of(members, fused.inputs);
    }
    rewriter.replace(members, std::move(fused));
}

}  // namespace

void fuse_products(Rewriter& rewriter)
{
    for (std::size_t i = 0; i < rewriter.size(); ++i)
        if (!rewriter.dead(i))
            fuse_product(rewriter, i);
    rewriter.finish();
}

}  // namespace clprim::onnx
