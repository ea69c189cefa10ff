// The factory, and what operators share.
#include <map>
#include <mutex>

#include <clprim/pointwise.hpp>
#include <clprim/sequence_layers.hpp>

#include "net/fields.hpp"

namespace clprim {

void Operator::initialize(Queue&, std::span<const Tensor> parameters, PhiloxState&)
{
    require<NotSupported>(parameters.empty(), type(), " does not say how its parameters are initialised");
}

void Operator::backward(const OperatorCall&) { require<NotSupported>(false, type(), " has no backward pass"); }

DataType net_data_type(std::string_view name)
{
    static constexpr std::pair<std::string_view, DataType> aliases[] = {
        {"float", DataType::float32}, {"double", DataType::float64}, {"half", DataType::float16},
        {"int", DataType::int32},     {"bool", DataType::boolean},
    };
    for (const auto& [alias, type] : aliases)
        if (alias == name)
            return type;
    return data_type_from_name(name);
}

namespace {

struct Row {
    std::string_view name;
    Activation activation;
};
constexpr Row activation_names[] = {
    {"identity", Activation::none}, {"relu", Activation::relu},   {"tanh", Activation::tanh},
    {"sigmoid", Activation::sigmoid}, {"relu6", Activation::relu6},
};

template <class Config>
OperatorFactory from_config()
{
    return [](const Options& options) { return make_operator(Config::from_json(options)); };
}

// Types whose name says the number of spatial axes.
template <class Config>
OperatorFactory with_axes(std::int64_t axes, bool transposed = false)
{
    return [=](Options options) {
        options.set("spatial", axes);
        if (transposed)
            options.set("transposed", true);
        return make_operator(Config::from_json(options));
    };
}

struct Factory {
    std::mutex mutex;
    std::map<std::string, OperatorFactory, std::less<>> makers;

    Factory()
    {
        for (std::int64_t axes = 1; axes <= 3; ++axes) {
            const std::string suffix = std::to_string(axes) + "D";
            makers["Convolution" + suffix] = with_axes<ConvolutionConfig>(axes);
            makers["TransposedConvolution" + suffix] = with_axes<ConvolutionConfig>(axes, true);
            makers["Pooling" + suffix] = with_axes<PoolingConfig>(axes);
        }
        makers["GlobalPooling"] = from_config<GlobalPoolingConfig>();
        makers["InnerProduct"] = from_config<InnerProductConfig>();
        makers["BatchNorm"] = from_config<BatchNormConfig>();
        makers["Softmax"] = from_config<SoftmaxConfig>();
        makers["SoftmaxWithLoss"] = from_config<SoftmaxWithLossConfig>();
        makers["NLLLoss"] = from_config<NLLLossConfig>();
        makers["MSELoss"] = from_config<MSELossConfig>();
        makers["Activation"] = from_config<ActivationConfig>();
        makers["Elementwise"] = from_config<ElementwiseConfig>();
        makers["Pointwise"] = from_config<PointwiseConfig>();
        makers["Threshold"] = from_config<ThresholdConfig>();
        makers["Hardtanh"] = from_config<HardtanhConfig>();
        makers["Abs"] = from_config<AbsConfig>();
        makers["Dropout"] = from_config<DropoutConfig>();
        makers["Concat"] = from_config<ConcatConfig>();
        makers["Slice"] = from_config<SliceConfig>();
        makers["Flatten"] = from_config<FlattenConfig>();
        makers["Squeeze"] = from_config<SqueezeConfig>();
        makers["Reshape"] = from_config<ReshapeConfig>();
        makers["Parameter"] = from_config<ParameterConfig>();
        makers["Reduction"] = from_config<ReductionConfig>();
        makers["Interpolation"] = from_config<InterpolationConfig>();
        makers["Linear"] = from_config<LinearConfig>();
        makers["MatMul"] = from_config<MatMulConfig>();
        makers["LayerNorm"] = from_config<LayerNormConfig>();
        makers["Embedding"] = from_config<EmbeddingConfig>();
        makers["Attention"] = from_config<AttentionConfig>();
        makers["Permute"] = from_config<PermuteConfig>();
        makers["LSTM"] = from_config<LSTMConfig>();
        makers["GRU"] = from_config<GRUConfig>();
        makers["DeformConv2D"] = from_config<DeformConv2DConfig>();
        makers["DeformPSROIPooling"] = from_config<DeformPSROIPoolingConfig>();
    }

    static Factory& instance()
    {
        static auto* factory = new Factory;
        return *factory;
    }
};

}  // namespace

std::string_view name_of(Activation activation)
{
    for (const Row& row : activation_names)
        if (row.activation == activation)
            return row.name;
    throw NotSupported("operators of nets have the activations identity, relu, tanh, sigmoid and relu6; others are "
                       "operators of their own");
}

Activation standard_activation(std::string_view name)
{
    for (const Row& row : activation_names)
        if (row.name == name)
            return row.activation;
    throw InvalidArgument(
        detail::concat("there is no activation \"", name, "\"; known: identity, relu, tanh, sigmoid, relu6"));
}

std::unique_ptr<Operator> make_operator(std::string_view type, const Options& options)
{
    Factory& factory = Factory::instance();
    OperatorFactory make;
    {
        std::lock_guard lock(factory.mutex);
        const auto found = factory.makers.find(type);
        require(found != factory.makers.end(), "there is no operator type \"", type, "\"");
        make = found->second;
    }
    return make(options);
}

std::vector<std::string> operator_types()
{
    Factory& factory = Factory::instance();
    std::lock_guard lock(factory.mutex);
    std::vector<std::string> types;
    for (const auto& [type, make] : factory.makers)
        types.push_back(type);
    return types;
}

void register_operator(std::string type, OperatorFactory make)
{
    Factory& factory = Factory::instance();
    std::lock_guard lock(factory.mutex);
    factory.makers[std::move(type)] = std::move(make);
}

Dims per_axis(const Dims& list, std::int64_t axes, std::int64_t fallback, const char* option)
{
    if (list.empty())
        return Dims(static_cast<std::size_t>(axes), fallback);
    if (list.size() == 1)
        return Dims(static_cast<std::size_t>(axes), list[0]);
    require(static_cast<std::int64_t>(list.size()) == axes, "option \"", option, "\" must have 1 or ", axes,
            " entries, got ", to_string(list));
    return list;
}

AutoPad auto_pad_from(std::string_view name)
{
    static constexpr std::pair<std::string_view, AutoPad> names[] = {
        {"notset", AutoPad::none},           {"valid", AutoPad::valid},
        {"same_upper", AutoPad::same_upper}, {"same_lower", AutoPad::same_lower},
        {"NOTSET", AutoPad::none},           {"VALID", AutoPad::valid},
        {"SAME_UPPER", AutoPad::same_upper}, {"SAME_LOWER", AutoPad::same_lower},
    };
    for (const auto& [known, value] : names)
        if (known == name)
            return value;
    throw InvalidArgument(
        detail::concat("option \"auto_pad\" must be notset, valid, same_upper or same_lower, got ", name));
}

void apply_activation(Queue& queue, Activation activation, const Tensor& y)
{
    const Input inputs[] = {y};
    const Tensor outputs[] = {y};
    static const Scalar six[] = {Scalar(0.0), Scalar(6.0)};
    switch (activation) {
    case Activation::none: return;
    case Activation::relu: return pointwise(queue, pointwise_row("relu"), {inputs, outputs, {}, y.dtype});
    case Activation::tanh: return pointwise(queue, pointwise_row("tanh"), {inputs, outputs, {}, y.dtype});
    case Activation::sigmoid: return pointwise(queue, pointwise_row("sigmoid"), {inputs, outputs, {}, y.dtype});
    case Activation::relu6:
        return pointwise(queue, pointwise_row("clamp_scalar"), {inputs, outputs, six, y.dtype});
    default: name_of(activation);   // throws
    }
}

Tensor activation_gradient(Queue& queue, Activation activation, const Tensor& dy, const Tensor& y)
{
    if (activation == Activation::none)
        return dy;
    const Tensor dx = queue.context().empty(dy.shape, dy.dtype, queue);
    const Input inputs[] = {dy, y};
    const Tensor outputs[] = {dx};
    const Scalar limits[] = {Scalar(0.0), Scalar(6.0)};
    const std::span<const Scalar> scalars(limits);
    switch (activation) {
    case Activation::tanh:
        pointwise(queue, pointwise_row("tanh_backward"), {inputs, outputs, {}, dy.dtype});
        break;
    case Activation::sigmoid:
        pointwise(queue, pointwise_row("sigmoid_backward"), {inputs, outputs, {}, dy.dtype});
        break;
    case Activation::relu6:
        pointwise(queue, pointwise_row("hardtanh_backward"), {inputs, outputs, scalars, dy.dtype});
        break;
    default:
        pointwise(queue, pointwise_row("threshold_backward"), {inputs, outputs, scalars.first(1), dy.dtype});
        break;
    }
    return dx;
}

}  // namespace clprim
