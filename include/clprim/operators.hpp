// The operators that come with clprim, by their configurations: make_operator(ConvolutionConfig{...}). The members are
// the options of JSON nets, under the same names; from_json reads those, to_json writes them. Shapes follow PyTorch.
//
// Of the activations operators take none ("identity" in JSON), relu, tanh, sigmoid and relu6.
//
// Lists with one entry per spatial axis may have one entry for all of them; an empty one means the default.
#pragma once

#include <clprim/activation.hpp>
#include <clprim/operator.hpp>

CLPRIM_API_BEGIN
namespace clprim {

#define CLPRIM_CONFIG(Name)                                                                                            \
    static Name from_json(const Options& options);                                                                     \
    Options to_json() const

// "Convolution1D" ... "Convolution3D", "TransposedConvolution1D" ... "TransposedConvolution3D". x (N, Cin, spatial...)
// to (N, channels_out, spatial...); see conv.hpp. Parameters: weight, and bias unless bias is false. Padding may differ
// at begin and end (pad_end empty: as pad), or come from auto_pad: "same_upper" and "same_lower" give ceil(in / stride)
// outputs (transposed: in * stride) with the odd element at the end or the begin, "valid" none. The *_algo options of
// existing nets are read and ignored.
struct ConvolutionConfig {
    std::int64_t channels_out = 0, channels_in = 0;   // channels_in 0: the input's
    Dims kernel{}, stride{}, pad{}, pad_end{}, dilate{}, output_pad{};
    std::int64_t groups = 1;
    bool bias = true;
    Activation activation = Activation::none;
    std::string auto_pad = "notset";
    std::int64_t spatial = 2;
    bool transposed = false;
    std::string fwd_algo = "auto", bwd_data_algo = "auto", bwd_filter_algo = "auto";
    CLPRIM_CONFIG(ConvolutionConfig);   // spatial and transposed are options here, and part of the type's name
                                        // elsewhere
};

// "Pooling1D" ... "Pooling3D": maximum ("max") or average ("avg") of windows, padded as convolutions are.
struct PoolingConfig {
    std::string mode = "max";
    Dims kernel{}, stride{}, pad{}, pad_end{}, dilate{};   // dilate: of "max" only
    bool count_include_pad = false, ceil_mode = false;
    std::string auto_pad = "notset";
    std::int64_t spatial = 2;
    CLPRIM_CONFIG(PoolingConfig);
};

// "GlobalPooling": over all spatial axes, which become 1.
struct GlobalPoolingConfig {
    std::string mode = "max";
    CLPRIM_CONFIG(GlobalPoolingConfig);
};

// "InnerProduct": y = act(x W^T + b), x (N, ...) taken as (N, inputs). Parameters: weight [outputs, inputs], bias.
struct InnerProductConfig {
    std::int64_t outputs = 0, inputs = 0;             // inputs 0: as the input has
    bool bias = true;
    Activation activation = Activation::none;
    CLPRIM_CONFIG(InnerProductConfig);
};

// "BatchNorm" over axis 1. Parameters: running_mean, running_var, gamma, beta (the last two with affine), in float32
// (float64 for float64 inputs).
struct BatchNormConfig {
    std::int64_t features = 0;
    double eps = 1e-5, momentum = 0.1;
    bool affine = true, use_global_stats = false;
    CLPRIM_CONFIG(BatchNormConfig);
};

// "Softmax" or its logarithm along an axis.
struct SoftmaxConfig {
    bool log = false;
    std::int64_t axis = 1;
    CLPRIM_CONFIG(SoftmaxConfig);
};

// "SoftmaxWithLoss": mean cross entropy of x [N, C, ...] and labels [N, ...] of any real dtype; gives [1].
struct SoftmaxWithLossConfig {
    bool log = false;                                 // read for the sake of existing nets, without effect
    CLPRIM_CONFIG(SoftmaxWithLossConfig);
};
// "NLLLoss": the same of log-probabilities. reduce: "mean", "sum" or "none".
struct NLLLossConfig {
    std::string reduce = "mean";
    CLPRIM_CONFIG(NLLLossConfig);
};
// "MSELoss" of two inputs of one shape.
struct MSELossConfig {
    std::string reduce = "mean";
    CLPRIM_CONFIG(MSELossConfig);
};

// "Activation".
struct ActivationConfig {
    Activation activation = Activation::none;
    CLPRIM_CONFIG(ActivationConfig);
};

// "Elementwise" of two inputs that broadcast: coef1 x0 + coef2 x1 ("sum"), coef1 x0 * coef2 x1 ("prod"),
// max(coef1 x0, coef2 x1) ("max"; of equals each gets half of the gradient), then the activation.
struct ElementwiseConfig {
    std::string operation = "sum";
    double coef1 = 1, coef2 = 1;
    Activation activation = Activation::none;
    CLPRIM_CONFIG(ElementwiseConfig);
};

// "Pointwise": any row of pointwise_rows() whose results have the inputs' dtype; inputs broadcast. values: the numbers
// w0.. of the row. Gradients of the usual activations of one input ("gelu", "silu", "leaky_relu", ...) and of functions
// like "exp", "log", "sqrt", "neg", "square", "reciprocal", "sin", "cos".
struct PointwiseConfig {
    std::string function{};
    std::vector<double> values{};
    CLPRIM_CONFIG(PointwiseConfig);
};
struct ThresholdConfig {                              // "Threshold": x > threshold ? 1 : 0
    double threshold = 0;
    CLPRIM_CONFIG(ThresholdConfig);
};
struct HardtanhConfig {                               // "Hardtanh": within [min_val, max_val]
    double min_val = -1, max_val = 1;
    CLPRIM_CONFIG(HardtanhConfig);
};
struct AbsConfig {                                    // "Abs"
    CLPRIM_CONFIG(AbsConfig);
};
struct DropoutConfig {                                // "Dropout": in train mode x / (1 - p) with probability 1 - p,
                                                      // else 0
    double p = 0.5;
    CLPRIM_CONFIG(DropoutConfig);
};

struct ConcatConfig {                                 // "Concat" of any number of inputs
    std::int64_t dim = 1;
    CLPRIM_CONFIG(ConcatConfig);
};
struct SliceConfig {                                  // "Slice": [begin, end) of an axis; negative ones count from its
    std::int64_t dim = 1, begin = 0, end = -1;        // end, end -1 is the end itself
    CLPRIM_CONFIG(SliceConfig);
};
struct FlattenConfig {                                // "Flatten" to (N, everything else)
    CLPRIM_CONFIG(FlattenConfig);
};
struct SqueezeConfig {                                // "Squeeze": the axes `dims`, or all of size 1 if that is empty
    Dims dims{};                                        // or `all` is set
    bool all = false;
    CLPRIM_CONFIG(SqueezeConfig);
};
struct ReshapeConfig {                                // "Reshape": 0 keeps a size, -1 (once) is deduced
    Dims dims{};
    CLPRIM_CONFIG(ReshapeConfig);
};

// "Parameter": no inputs; its only parameter is the output. Starts as zeros.
struct ParameterConfig {
    Dims shape{};
    std::string dtype = "float";
    bool is_trainable = true;
    CLPRIM_CONFIG(ParameterConfig);
};

// "Reduction": method sum, sumsq, abssum or mean, over `dims` or the axes from start_axis on; times output_scale.
// Without keep_dim the reduced axes go; if none is left the shape is [1].
struct ReductionConfig {
    std::string method = "sum";
    bool keep_dim = true;
    double output_scale = 1;
    Dims dims{};
    std::int64_t start_axis = 0;
    CLPRIM_CONFIG(ReductionConfig);
};

// "Interpolation" of (N, C, H, W): nearest, nearest-exact or bilinear; to out_h x out_w, or by the scales.
struct InterpolationConfig {
    std::string method{};
    std::int64_t out_h = -1, out_w = -1;
    double scale_y = -1, scale_x = -1;
    bool align_corners = false;
    CLPRIM_CONFIG(InterpolationConfig);
};

// "DeformConv2D": inputs x, offset and, for version 2, mask; parameters weight and bias. See deform_conv.hpp.
struct DeformConv2DConfig {
    std::int64_t channels_out = 0, channels_in = 0, groups = 1, offset_groups = 1;
    Dims kernel{}, stride{}, pad{}, dilate{};
    bool bias = true;
    CLPRIM_CONFIG(DeformConv2DConfig);
};

// "DeformPSROIPooling": inputs x, rois [K, 5] and, unless no_trans, trans. See psroi_pool.hpp.
struct DeformPSROIPoolingConfig {
    bool no_trans = false;
    double spatial_scale = 1, trans_std = 0;
    std::int64_t output_dim = 1, group_size = 1, pooled_size = 1, part_size = 0, sample_per_part = 4;   // part_size 0:
    CLPRIM_CONFIG(DeformPSROIPoolingConfig);                                                             // pooled_size
};

#undef CLPRIM_CONFIG

std::unique_ptr<Operator> make_operator(const ConvolutionConfig& config);
std::unique_ptr<Operator> make_operator(const PoolingConfig& config);
std::unique_ptr<Operator> make_operator(const GlobalPoolingConfig& config);
std::unique_ptr<Operator> make_operator(const InnerProductConfig& config);
std::unique_ptr<Operator> make_operator(const BatchNormConfig& config);
std::unique_ptr<Operator> make_operator(const SoftmaxConfig& config);
std::unique_ptr<Operator> make_operator(const SoftmaxWithLossConfig& config);
std::unique_ptr<Operator> make_operator(const NLLLossConfig& config);
std::unique_ptr<Operator> make_operator(const MSELossConfig& config);
std::unique_ptr<Operator> make_operator(const ActivationConfig& config);
std::unique_ptr<Operator> make_operator(const ElementwiseConfig& config);
std::unique_ptr<Operator> make_operator(const PointwiseConfig& config);
std::unique_ptr<Operator> make_operator(const ThresholdConfig& config);
std::unique_ptr<Operator> make_operator(const HardtanhConfig& config);
std::unique_ptr<Operator> make_operator(const AbsConfig& config);
std::unique_ptr<Operator> make_operator(const DropoutConfig& config);
std::unique_ptr<Operator> make_operator(const ConcatConfig& config);
std::unique_ptr<Operator> make_operator(const SliceConfig& config);
std::unique_ptr<Operator> make_operator(const FlattenConfig& config);
std::unique_ptr<Operator> make_operator(const SqueezeConfig& config);
std::unique_ptr<Operator> make_operator(const ReshapeConfig& config);
std::unique_ptr<Operator> make_operator(const ParameterConfig& config);
std::unique_ptr<Operator> make_operator(const ReductionConfig& config);
std::unique_ptr<Operator> make_operator(const InterpolationConfig& config);
std::unique_ptr<Operator> make_operator(const DeformConv2DConfig& config);
std::unique_ptr<Operator> make_operator(const DeformPSROIPoolingConfig& config);

}  // namespace clprim
CLPRIM_API_END
