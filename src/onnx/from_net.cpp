// A net and its parameters as an ONNX model: what it computes in predict mode.
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include <clprim/net.hpp>
#include <clprim/onnx.hpp>

#include "net/json.hpp"
#include "onnx/formula_writer.hpp"
#include "onnx/graph_writer.hpp"
#include "onnx/written_operator.hpp"
#include "onnx/written_windows.hpp"

namespace clprim {

using namespace onnx;

namespace {

// DeformConv came with 19, Gelu with 20.
constexpr int written_opset = 20, written_ir_version = 9;

std::int64_t rank_of(const TensorSpec& spec) { return static_cast<std::int64_t>(spec.shape.size()); }

class NetExporter : private GraphWriter {
public:
    explicit NetExporter(const Net& net)
        : weights_(net.parameters_to_host()), description_(parse_json(net.to_json(), "net"))
    {
    }

    std::string write()
    {
        for (const auto& [name, weight] : weights_)
            reserve(name);
        for (const Json& op : description_["operators"])
            for (const Json& name : op["outputs"]) {
                reserve(name.get<std::string>());
                ++writers_[name.get<std::string>()];
            }
        for (const Json& entry : description_["inputs"])
            add_input(entry);
        for (const Json& op : description_["operators"])
            add_operator(op);
        for (const Json& entry : description_["outputs"]) {
            const std::string name = entry.is_string() ? entry.get<std::string>() : entry["name"].get<std::string>();
            output(names_.at(name), specs_.at(names_.at(name)));
        }
        return model(written_opset, written_ir_version);
    }

private:
    using Handler = std::function<void(NetExporter&, const Written&)>;

    void add_input(const Json& entry)
    {
        const auto name = entry["name"].get<std::string>();
        const auto shape = entry["shape"].get<Ints>();
        const DataType dtype = net_data_type(entry["dtype"].get<std::string>());
        const TensorSpec spec{Dims(std::span<const std::int64_t>(shape)), dtype};
        input(take_name(name), spec);
        names_[name] = name;
        specs_[name] = spec;
    }

    // A value of ONNX is written once, a name of a net may be written again: the last one keeps the name.
    std::string output_name(const std::string& name)
    {
        return --writers_[name] == 0 ? take_name(name) : fresh(name);
    }

    void add_operator(const Json& json)
    {
        Written op;
        op.name = json["name"].get<std::string>();
        op.type = json["type"].get<std::string>();
        const auto handler = handlers().find(op.type);
        require<NotSupported>(handler != handlers().end(), "operator \"", op.name, "\" (", op.type,
                              "): ONNX has no operator for it");
        for (const Json& input : json["inputs"]) {
            op.inputs.push_back(names_.at(input.get<std::string>()));
            op.specs.push_back(specs_.at(op.inputs.back()));
        }
        // The net has checked all this once; made again, the operator tells the shapes of its results.
        const auto own = make_operator(op.type, Options(json["options"].dump()));
        op.result = own->outputs(op.specs).at(0);
        op.options = own->options();
        if (json.contains("params"))
            for (const Json& name : json["params"])
                op.parameters.push_back(parameter(name.get<std::string>()));
        const auto name = json["outputs"][0].get<std::string>();
        op.output = output_name(name);
        name_nodes_after(op.name);
        try {
            handler->second(*this, op);
        } catch (const NotSupported& error) {
            throw NotSupported("operator \"" + op.name + "\" (" + op.type + "): " + error.what());
        }
        names_[name] = op.output;
        specs_[op.output] = op.result;
    }

    // A parameter of the net; shared ones are written once.
    std::string parameter(const std::string& name)
    {
        const auto [found, is_new] = parameters_.emplace(name, "");
        if (is_new) {
            found->second = take_name(name);
            const HostTensor& weight = weights_.at(name);
            initializer(found->second, weight.dtype, weight.shape, weight.data);
        }
        return found->second;
    }

    void convolution(const Written& op)
    {
        const auto c = config_of<ConvolutionConfig>(op);
        WrittenAttributes attributes = window(c);
        attributes.push_back({"group", c.groups});
        if (c.transposed)
            attributes.push_back({"output_padding", list(per_axis(c.output_pad, c.spatial, 0, "output_pad"))});
        Names inputs{op.inputs[0]};
        inputs.insert(inputs.end(), op.parameters.begin(), op.parameters.end());
        activated(*this, c.activation, op, [&](const std::string& y) {
            node(c.transposed ? "ConvTranspose" : "Conv", inputs, attributes, y);
        });
    }

    void pooling(const Written& op)
    {
        const auto c = config_of<PoolingConfig>(op);
        WrittenAttributes attributes = window(c);
        attributes.push_back({"ceil_mode", std::int64_t{c.ceil_mode}});
        if (c.mode == "avg")
            attributes.push_back({"count_include_pad", std::int64_t{c.count_include_pad}});
        node(c.mode == "max" ? "MaxPool" : "AveragePool", {op.inputs[0]}, attributes, op.output);
    }

    void deform_convolution(const Written& op)
    {
        const auto c = config_of<DeformConv2DConfig>(op);
        const auto both = [](const Dims& values, std::int64_t fallback, const char* option) {
            return list(per_axis(values, 2, fallback, option));
        };
        Ints pads = both(c.pad, 0, "pad");
        pads = {pads[0], pads[1], pads[0], pads[1]};
        const Names inputs{op.inputs[0], op.parameters[0], op.inputs[1], c.bias ? op.parameters[1] : "",
                           op.inputs.size() > 2 ? op.inputs[2] : ""};
        node("DeformConv", inputs,
             {{"kernel_shape", both(c.kernel, 1, "kernel")}, {"strides", both(c.stride, 1, "stride")},
              {"dilations", both(c.dilate, 1, "dilate")}, {"pads", pads}, {"group", c.groups},
              {"offset_group", c.offset_groups}}, op.output);
    }

    void inner_product(const Written& op)
    {
        const auto c = config_of<InnerProductConfig>(op);
        Names inputs{rank_of(op.specs[0]) == 2 ? op.inputs[0] : node("Flatten", {op.inputs[0]})};
        inputs.insert(inputs.end(), op.parameters.begin(), op.parameters.end());
        activated(*this, c.activation, op, [&](const std::string& y) {
            node("Gemm", inputs, {{"transB", std::int64_t{1}}}, y);
        });
    }

    void batch_norm(const Written& op)
    {
        // Nets: mean, variance, gamma, beta; ONNX: scale, bias, mean, variance.
        const auto c = config_of<BatchNormConfig>(op);
        const DataType dtype = op.specs[0].dtype == DataType::float64 ? DataType::float64 : DataType::float32;
        const Dims channels{op.specs[0].shape[1]};
        node("BatchNormalization",
             {op.inputs[0], c.affine ? op.parameters[2] : number(1, dtype, channels),
              c.affine ? op.parameters[3] : number(0, dtype, channels), op.parameters[0], op.parameters[1]},
             {{"epsilon", static_cast<float>(c.eps)}, {"momentum", static_cast<float>(1 - c.momentum)}}, op.output);
    }

    // Losses are numbers of shape [1] in nets, and without axes in ONNX.
    void reduced(const Written& op, const std::string& loss, bool reduces)
    {
        node("Reshape", {loss, ints(reduces ? Ints{1} : list(op.result.shape))}, {}, op.output);
    }

    void class_loss(const Written& op, bool with_softmax)
    {
        const std::string reduction = with_softmax ? "mean" : config_of<NLLLossConfig>(op).reduce;
        // Short floats are computed in float32, and labels are [N, ...] of whole numbers.
        const std::string x = op.specs[0].dtype == op.result.dtype ? op.inputs[0] : cast(op.inputs[0], op.result.dtype);
        Dims shape = op.specs[0].shape;
        Ints labels{shape[0]};
        labels.insert(labels.end(), shape.begin() + 2, shape.end());
        const std::string target = node("Reshape", {cast(op.inputs[1], DataType::int64), ints(labels)});
        const char* type = with_softmax ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss";
        reduced(op, node(type, {x, target}, {{"reduction", reduction}}), reduction != "none");
    }

    void squared_error(const Written& op)
    {
        const std::string reduce = config_of<MSELossConfig>(op).reduce, d = node("Sub", op.inputs);
        if (reduce == "none")
            return void(node("Mul", {d, d}, {}, op.output));
        const char* type = reduce == "mean" ? "ReduceMean" : "ReduceSum";
        reduced(op, node(type, {node("Mul", {d, d})}, {{"keepdims", std::int64_t{0}}}), true);
    }

    void elementwise(const Written& op)
    {
        const auto c = config_of<ElementwiseConfig>(op);
        const auto scaled = [&](std::size_t i, double factor) {
            return factor == 1 ? op.inputs[i] : node("Mul", {op.inputs[i], number(factor, op.result.dtype)});
        };
        const Names inputs{scaled(0, c.coef1), scaled(1, c.coef2)};
        const char* type = c.operation == "sum" ? "Add" : c.operation == "prod" ? "Mul" : "Max";
        activated(*this, c.activation, op, [&](const std::string& y) { node(type, inputs, {}, y); });
    }

    void reduction(const Written& op)
    {
        const auto c = config_of<ReductionConfig>(op);
        Ints axes = list(c.dims);
        const std::int64_t rank = rank_of(op.specs[0]);
        if (axes.empty())
            for (std::int64_t axis = c.start_axis < 0 ? c.start_axis + rank : c.start_axis; axis < rank; ++axis)
                axes.push_back(axis);
        const char* type = c.method == "sum" ? "ReduceSum" : c.method == "sumsq" ? "ReduceSumSquare"
                         : c.method == "abssum" ? "ReduceL1" : "ReduceMean";
        std::string y = node(type, {op.inputs[0], ints(axes)}, {{"keepdims", std::int64_t{1}}});
        if (c.output_scale != 1)
            y = node("Mul", {y, number(c.output_scale, op.result.dtype)});
        node("Reshape", {y, ints(list(op.result.shape))}, {}, op.output);
    }

    void interpolation(const Written& op)
    {
        const auto c = config_of<InterpolationConfig>(op);
        const bool linear = c.method == "bilinear", exact = c.method == "nearest-exact";
        const char* coordinates = c.align_corners ? "align_corners" : linear || exact ? "half_pixel" : "asymmetric";
        WrittenAttributes attributes{{"axes", Ints{2, 3}}, {"mode", linear ? "linear" : "nearest"},
                                     {"coordinate_transformation_mode", coordinates}};
        if (!linear)
            attributes.push_back({"nearest_mode", exact ? "round_prefer_ceil" : "floor"});
        if (c.out_h > 0)
            return void(node("Resize", {op.inputs[0], "", "", ints({c.out_h, c.out_w})}, attributes, op.output));
        const float scales[] = {static_cast<float>(c.scale_y), static_cast<float>(c.scale_x)};
        const std::string name = fresh(op.name);
        initializer(name, DataType::float32, {2}, std::as_bytes(std::span(scales)));
        node("Resize", {op.inputs[0], "", name}, attributes, op.output);
    }

    void slice(const Written& op)
    {
        const auto c = config_of<SliceConfig>(op);
        const std::int64_t end = c.end == -1 ? INT64_MAX : c.end;
        node("Slice", {op.inputs[0], ints({c.begin}), ints({end}), ints({c.dim})}, {}, op.output);
    }

    void squeeze(const Written& op) { node("Reshape", {op.inputs[0], ints(list(op.result.shape))}, {}, op.output); }

    // Rows of the table of elementwise operators, which say themselves what they are in ONNX.
    void pointwise(const Written& op)
    {
        const auto c = config_of<PointwiseConfig>(op);
        write_row(*this, {c.function, c.values, op.inputs, op.specs}, op.output);
    }

    static const std::map<std::string, Handler>& handlers()
    {
        const auto simple = [](const char* type) {
            return [type](NetExporter& w, const Written& op) { w.node(type, op.inputs, {}, op.output); };
        };
        const auto global = [](NetExporter& w, const Written& op) {
            const bool maximum = config_of<GlobalPoolingConfig>(op).mode == "max";
            w.node(maximum ? "GlobalMaxPool" : "GlobalAveragePool", op.inputs, {}, op.output);
        };
        static const std::map<std::string, Handler> table = [&] {
            std::map<std::string, Handler> rows{
                {"GlobalPooling", global},
                {"InnerProduct", &NetExporter::inner_product},
                {"BatchNorm", &NetExporter::batch_norm},
                {"Softmax", [](NetExporter& w, const Written& op) {
                    const auto c = config_of<SoftmaxConfig>(op);
                    w.node(c.log ? "LogSoftmax" : "Softmax", op.inputs, {{"axis", c.axis}}, op.output);
                }},
                {"SoftmaxWithLoss", [](NetExporter& w, const Written& op) { w.class_loss(op, true); }},
                {"NLLLoss", [](NetExporter& w, const Written& op) { w.class_loss(op, false); }},
                {"MSELoss", &NetExporter::squared_error},
                {"Activation", [](NetExporter& w, const Written& op) {
                    activate(w, config_of<ActivationConfig>(op).activation, op.inputs[0], op);
                }},
                {"Elementwise", &NetExporter::elementwise}, {"Pointwise", &NetExporter::pointwise},
                {"Threshold", [](NetExporter& w, const Written& op) {
                    const DataType dtype = op.result.dtype;
                    const double bound = config_of<ThresholdConfig>(op).threshold;
                    w.cast(w.node("Greater", {op.inputs[0], w.number(bound, dtype)}), dtype, op.output);
                }},
                {"Hardtanh", [](NetExporter& w, const Written& op) {
                    const auto c = config_of<HardtanhConfig>(op);
                    clip(w, op, op.inputs[0], c.min_val, c.max_val);
                }},
                {"Abs", simple("Abs")}, {"Dropout", simple("Identity")},
                {"Concat", [](NetExporter& w, const Written& op) {
                    w.node("Concat", op.inputs, {{"axis", config_of<ConcatConfig>(op).dim}}, op.output);
                }},
                {"Slice", &NetExporter::slice}, {"Flatten", simple("Flatten")}, {"Squeeze", &NetExporter::squeeze},
                {"Reshape", [](NetExporter& w, const Written& op) {
                    w.node("Reshape", {op.inputs[0], w.ints(list(config_of<ReshapeConfig>(op).dims))}, {}, op.output);
                }},
                {"Parameter", [](NetExporter& w, const Written& op) {
                    w.node("Identity", op.parameters, {}, op.output);
                }},
                {"Reduction", &NetExporter::reduction}, {"Interpolation", &NetExporter::interpolation},
                {"DeformConv2D", &NetExporter::deform_convolution},
            };
            for (const std::string axes : {"1D", "2D", "3D"}) {
                rows["Convolution" + axes] = rows["TransposedConvolution" + axes] = &NetExporter::convolution;
                rows["Pooling" + axes] = &NetExporter::pooling;
            }
            for (const auto& [type, write] : written_sequence_operators())
                rows[type] = [write = write](NetExporter& w, const Written& op) { write(w, op); };
            return rows;
        }();
        return table;
    }

    const WeightMap weights_;
    const Json description_;
    std::map<std::string, std::string> names_;        // of the net's values in the model, now
    std::map<std::string, TensorSpec> specs_;         // by names in the model
    std::map<std::string, std::string> parameters_;   // their initializers
    std::map<std::string, int> writers_;
};

}  // namespace

std::string convert_to_onnx(const Net& net) { return NetExporter(net).write(); }

}  // namespace clprim
