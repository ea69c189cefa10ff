// An ONNX model as a JSON net and its weights: for those operators that nets have.
#include <algorithm>

#include <cctype>
#include <cmath>
#include <functional>

#include <clprim/onnx.hpp>

#include "net/json.hpp"
#include "onnx/graph.hpp"

namespace clprim {

using namespace onnx;

namespace {

class NetWriter {
public:
    explicit NetWriter(const Graph& graph) : graph_(graph), names_(graph.slots)
    {
        for (const auto& [slot, value] : graph.constants)
            constants_[slot] = value;
        // Nets have no unnamed operators, and no two of one name.
        for (const Node& node : graph.nodes)
            ++node_names_[node.name];
    }

    ConvertedNet write()
    {
        Json inputs = Json::array(), outputs = Json::array();
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
            if (!constants_.contains(graph_.inputs[i]))
                inputs.push_back(input(graph_.input_ports[i]));
        std::map<std::string, int> missing;
        for (const Node& node : graph_.nodes)
            if (const auto handler = handlers().find(node.op_type); node.domain.empty() && handler != handlers().end())
                handler->second(*this, node);
            else
                ++missing[node.op_type];
        std::string text = "nets have no operators for:";
        for (const auto& [name, count] : missing)
            text += " " + name + " (" + std::to_string(count) + ")";
        require<NotSupported>(missing.empty(), text);
        for (const int slot : graph_.outputs)
            outputs.push_back(names_[static_cast<std::size_t>(slot)]);
        return {Json{{"inputs", inputs}, {"outputs", outputs}, {"operators", operators_}}.dump(1), std::move(weights_)};
    }

private:
    using Handler = std::function<void(NetWriter&, const Node&)>;

    static Json input(const Port& port)
    {
        require<NotSupported>(port.has_shape, "input '", port.name, "' has no shape");
        Json shape = Json::array();
        for (const auto& size : port.shape) {
            const auto* number = std::get_if<std::int64_t>(&size);
            require<NotSupported>((number && *number > 0) || shape.empty(), "input '", port.name,
                                  "': only the first size may be dynamic");
            shape.push_back(number && *number > 0 ? *number : 1);
        }
        return {{"name", port.name}, {"shape", shape}, {"dtype", name_of(storage_type(port.type))}};
    }

    template <class... Parts>
    void check(bool right, const Node& node, const Parts&... parts) const
    {
        require<NotSupported>(right, node.op_type, " '", node.name,
                              "' does not become an operator of a net: ", parts...);
    }

    std::string name_for(const Node& node)
    {
        return node.name.empty() || node_names_[node.name] > 1 ? "op" + std::to_string(operators_.size()) : node.name;
    }

    // The first `count` inputs as tensors, the operator, its parameters in the net's order.
    void add(const Node& node, const char* type, Json options, std::size_t count = 1,
             const std::vector<HostTensor>& parameters = {})
    {
        Json inputs = Json::array();
        for (std::size_t i = 0; i < count; ++i) {
            check(i < node.inputs.size() && node.inputs[i] != absent && !constants_.contains(node.inputs[i]), node,
                  "input ", i, " is no tensor that the model computes");
            inputs.push_back(names_[static_cast<std::size_t>(node.inputs[i])]);
        }
        const std::string name = name_for(node);
        for (std::size_t i = 0; i < parameters.size(); ++i)
            weights_[name + "." + std::to_string(i)] = parameters[i];
        operators_.push_back({{"name", name},
                              {"type", type},
                              {"inputs", inputs},
                              {"outputs", {names_[static_cast<std::size_t>(node.outputs.at(0))]}},
                              {"options", std::move(options)}});
    }

    // Operators that change nothing: their output is another name of their input. Exporters share equal constants by
    // them.
    void pass(const Node& node)
    {
        const int from = node.inputs.at(0), to = node.outputs.at(0);
        names_[static_cast<std::size_t>(to)] = names_[static_cast<std::size_t>(from)];
        if (const auto found = constants_.find(from); found != constants_.end())
            constants_[to] = Value(found->second);
    }

    void constant_node(const Node& node)
    {
        constants_[node.outputs.at(0)] = constant_value(node);
        check(constants_[node.outputs[0]].is_tensor(), node, "it has no value");
    }

    const Value& constant(const Node& node, std::size_t i) const
    {
        const auto found = i < node.inputs.size() ? constants_.find(node.inputs[i]) : constants_.end();
        check(found != constants_.end() && found->second.on_host(), node, "input ", i, " is no constant");
        return found->second;
    }

    HostTensor weight(const Node& node, std::size_t i) const
    {
        const Value& value = constant(node, i);
        const DataType dtype = storage_type(value.type());
        const std::byte* bytes = value.host_bytes();
        return host_tensor(dtype, value.shape(),
                           {bytes, bytes + static_cast<std::size_t>(value.numel()) * size_of(dtype)});
    }

    static std::int64_t integer(const Node& node, std::string_view name, std::int64_t otherwise)
    {
        return attribute_of<std::int64_t>(node, name, otherwise);
    }

    // Stride, dilation and padding of convolutions and poolings.
    Json window(const Node& node, std::size_t spatial) const
    {
        using Ints = std::vector<std::int64_t>;
        const Ints ones(spatial, 1), pads = attribute_of<Ints>(node, "pads", Ints(2 * spatial, 0));
        check(pads.size() == 2 * spatial, node, "bad pads");
        const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
        Json result{{"stride", attribute_of<Ints>(node, "strides", ones)},
                    {"dilate", attribute_of<Ints>(node, "dilations", ones)},
                    {"pad", Ints(pads.begin(), middle)},
                    {"pad_end", Ints(middle, pads.end())}};
        std::string automatic = attribute_of<std::string>(node, "auto_pad", "NOTSET");
        std::ranges::transform(automatic, automatic.begin(), [](unsigned char c) { return std::tolower(c); });
        if (automatic != "notset") {
            result["auto_pad"] = automatic;
            result.erase("pad");
            result.erase("pad_end");
        }
        return result;
    }

    void convolution(const Node& node, bool transposed)
    {
        const HostTensor w = weight(node, 1);
        check(w.shape.size() >= 3 && w.shape.size() <= 5, node, "weights of shape ", to_string(w.shape));
        const std::size_t spatial = w.shape.size() - 2;
        Json options = window(node, spatial);
        const std::int64_t groups = integer(node, "group", 1);
        options["channels_out"] = transposed ? w.shape[1] * groups : w.shape[0];
        options["kernel"] = std::vector<std::int64_t>(w.shape.begin() + 2, w.shape.end());
        options["groups"] = groups;
        options["bias"] = node.inputs.size() > 2 && node.inputs[2] != absent;
        if (transposed) {
            check(!node.attributes.contains("output_shape"), node, "output_shape");
            options["output_pad"] = attribute_of(node, "output_padding", std::vector<std::int64_t>(spatial, 0));
        }
        std::vector<HostTensor> parameters{w};
        if (options["bias"])
            parameters.push_back(weight(node, 2));
        const std::string type = (transposed ? "TransposedConvolution" : "Convolution") + std::to_string(spatial) + "D";
        add(node, type.c_str(), options, 1, parameters);
    }

    void pooling(const Node& node, const char* mode)
    {
        const auto kernel = attribute_of(node, "kernel_shape", std::vector<std::int64_t>());
        check(!kernel.empty() && kernel.size() <= 3 && node.outputs.size() == 1, node, "kernel or a second output");
        Json options = window(node, kernel.size());
        options["mode"] = mode;
        options["kernel"] = kernel;
        options["ceil_mode"] = integer(node, "ceil_mode", 0) != 0;
        if (std::string_view(mode) == "avg") {
            check(std::ranges::all_of(options["dilate"], [](const Json& d) { return d == 1; }), node, "dilations");
            options.erase("dilate");
            options["count_include_pad"] = integer(node, "count_include_pad", 0) != 0;
        }
        add(node, ("Pooling" + std::to_string(kernel.size()) + "D").c_str(), options);
    }

    void product(const Node& node)
    {
        check(attribute_of(node, "alpha", 1.0f) == 1 && attribute_of(node, "beta", 1.0f) == 1 &&
                  !integer(node, "transA", 0),
              node, "alpha, beta or transA");
        HostTensor w = weight(node, 1);
        check(w.shape.size() == 2, node, "weights of shape ", to_string(w.shape));
        if (!integer(node, "transB", 0))
            w = transposed(w);
        std::vector<HostTensor> parameters{w};
        const bool bias = node.inputs.size() > 2 && node.inputs[2] != absent;
        if (bias) {
            parameters.push_back(weight(node, 2));
            check(parameters[1].shape == Dims{w.shape[0]}, node, "bias of shape ", to_string(parameters[1].shape));
        }
        add(node, "InnerProduct", {{"outputs", w.shape[0]}, {"bias", bias}}, 1, parameters);
    }

    static HostTensor transposed(const HostTensor& w)
    {
        const auto rows = static_cast<std::size_t>(w.shape[0]), columns = static_cast<std::size_t>(w.shape[1]);
        const std::size_t width = size_of(w.dtype);
        std::vector<std::byte> bytes(w.data.size());
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j)
                std::copy_n(w.data.begin() + static_cast<std::ptrdiff_t>((i * columns + j) * width), width,
                            bytes.begin() + static_cast<std::ptrdiff_t>((j * rows + i) * width));
        return host_tensor(w.dtype, {w.shape[1], w.shape[0]}, std::move(bytes));
    }

    void batch_norm(const Node& node)
    {
        check(node.outputs.size() == 1 || integer(node, "training_mode", 0) == 0, node, "training mode");
        // ONNX: scale, bias, mean, variance; nets: mean, variance, gamma, beta.
        add(node, "BatchNorm",
            {{"eps", attribute_of(node, "epsilon", 1e-5f)}, {"momentum", 1 - attribute_of(node, "momentum", 0.9f)}}, 1,
            {weight(node, 3), weight(node, 4), weight(node, 1), weight(node, 2)});
    }

    void reshape(const Node& node)
    {
        const Value& sizes = constant(node, 1);
        check(sizes.type() == ElementType::int64 && sizes.dim() == 1 && !integer(node, "allowzero", 0), node, "sizes");
        const auto* first = reinterpret_cast<const std::int64_t*>(sizes.host_bytes());
        add(node, "Reshape", {{"dims", std::vector<std::int64_t>(first, first + sizes.numel())}});
    }

    void softmax(const Node& node, bool log)
    {
        const std::int64_t axis = integer(node, "axis", node.opset >= 13 ? -1 : 1);
        check(axis == 1 || axis == -1, node, "axis ", axis);
        add(node, "Softmax", {{"axis", axis}, {"log", log}});
    }

    void clip(const Node& node)
    {
        const auto bound = [&](std::size_t i, const char* name, float otherwise) {
            if (node.inputs.size() <= i || node.inputs[i] == absent)
                return attribute_of(node, name, otherwise);
            check(constant(node, i).type() == ElementType::float32, node, "bounds of another type than float32");
            return *reinterpret_cast<const float*>(constant(node, i).host_bytes());
        };
        const float low = bound(1, "min", -HUGE_VALF), high = bound(2, "max", HUGE_VALF);
        check(std::isfinite(low) && std::isfinite(high), node, "one bound only");
        add(node, "Hardtanh", {{"min_val", low}, {"max_val", high}});
    }

    static const std::map<std::string, Handler>& handlers()
    {
        const auto activation = [](const char* name) {
            return [name](NetWriter& w, const Node& n) { w.add(n, "Activation", {{"activation", name}}); };
        };
        const auto elementwise = [](const char* name) {
            return [name](NetWriter& w, const Node& n) { w.add(n, "Elementwise", {{"operation", name}}, 2); };
        };
        static const std::map<std::string, Handler> table{
            {"Conv", [](NetWriter& w, const Node& n) { w.convolution(n, false); }},
            {"ConvTranspose", [](NetWriter& w, const Node& n) { w.convolution(n, true); }},
            {"BatchNormalization", [](NetWriter& w, const Node& n) { w.batch_norm(n); }},
            {"Relu", activation("relu")},
            {"Sigmoid", activation("sigmoid")},
            {"Tanh", activation("tanh")},
            {"Clip", [](NetWriter& w, const Node& n) { w.clip(n); }},
            {"MaxPool", [](NetWriter& w, const Node& n) { w.pooling(n, "max"); }},
            {"AveragePool", [](NetWriter& w, const Node& n) { w.pooling(n, "avg"); }},
            {"GlobalMaxPool", [](NetWriter& w, const Node& n) { w.add(n, "GlobalPooling", {{"mode", "max"}}); }},
            {"GlobalAveragePool", [](NetWriter& w, const Node& n) { w.add(n, "GlobalPooling", {{"mode", "avg"}}); }},
            {"Gemm", [](NetWriter& w, const Node& n) { w.product(n); }},
            {"Add", elementwise("sum")},
            {"Mul", elementwise("prod")},
            {"Max", elementwise("max")},
            {"Sum", elementwise("sum")},
            {"Concat", [](NetWriter& w,
                          const Node& n) { w.add(n, "Concat", {{"dim", integer(n, "axis", 1)}}, n.inputs.size()); }},
            {"Flatten",
             [](NetWriter& w, const Node& n) {
                 w.check(integer(n, "axis", 1) == 1, n, "axis");
                 w.add(n, "Flatten", Json::object());
             }},
            {"Reshape", [](NetWriter& w, const Node& n) { w.reshape(n); }},
            {"Softmax", [](NetWriter& w, const Node& n) { w.softmax(n, false); }},
            {"LogSoftmax", [](NetWriter& w, const Node& n) { w.softmax(n, true); }},
            {"Abs", [](NetWriter& w, const Node& n) { w.add(n, "Abs", Json::object()); }},
            {"Dropout", [](NetWriter& w, const Node& n) { w.pass(n); }},
            {"Identity", [](NetWriter& w, const Node& n) { w.pass(n); }},
            {"Constant", [](NetWriter& w, const Node& n) { w.constant_node(n); }},
        };
        return table;
    }

    const Graph& graph_;
    std::vector<std::string> names_;      // of slots, in the net
    std::map<int, Value> constants_;
    std::map<std::string, int> node_names_;
    Json operators_ = Json::array();
    WeightMap weights_;
};

}  // namespace

ConvertedNet convert_to_net(const OnnxModel& model)
{
    require_unwritten(model.model()->mapped);
    return NetWriter(*model.model()->graph).write();
}

}  // namespace clprim
