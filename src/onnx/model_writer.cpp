#include "onnx/model_writer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <clprim/error.hpp>

#include "onnx_proto.pb.h"

namespace clprim::onnx {

namespace {

namespace pb = ::onnx;

using Names = std::vector<std::string>;

void write_tensor(const Value& value, Queue& queue, pb::TensorProto& proto)
{
    require<NotSupported>(value.is_tensor(), "a constant is a sequence, map or optional, which files cannot hold");
    proto.set_data_type(static_cast<int>(value.type()));
    proto.mutable_dims()->Add(value.shape().begin(), value.shape().end());
    if (value.type() == ElementType::string) {
        for (const std::string& text : value.strings())
            proto.add_string_data(text);
        return;
    }
    const bool packed = value.type() >= ElementType::uint4 && value.type() != ElementType::float8e8m0;
    require<NotSupported>(!packed, "a constant has elements narrower than a byte, which are not written");
    const auto count = static_cast<std::size_t>(value.numel());
    proto.set_raw_data(value.bytes(queue), count * size_of(storage_type(value.type())));
}

void write_port(const Port& port, pb::ValueInfoProto& proto)
{
    proto.set_name(port.name);
    if (port.kind == Port::Kind::other || port.type == ElementType::undefined)
        return;
    pb::TypeProto* type = proto.mutable_type();
    if (port.kind == Port::Kind::sequence)
        type = type->mutable_sequence_type()->mutable_elem_type();
    else if (port.kind == Port::Kind::optional)
        type = type->mutable_optional_type()->mutable_elem_type();
    if (port.key != ElementType::undefined) {
        type->mutable_map_type()->set_key_type(static_cast<int>(port.key));
        type = type->mutable_map_type()->mutable_value_type();
    }
    type->mutable_tensor_type()->set_elem_type(static_cast<int>(port.type));
    if (!port.has_shape)
        return;
    auto& shape = *type->mutable_tensor_type()->mutable_shape();
    for (const auto& size : port.shape) {
        auto& dim = *shape.add_dim();
        if (const auto* number = std::get_if<std::int64_t>(&size))
            dim.set_dim_value(*number);
        else if (const auto& name = std::get<std::string>(size); !name.empty())
            dim.set_dim_param(name);
    }
}

class ModelWriter {
public:
    ModelWriter(const Model& model, Queue& queue) : model_(model), queue_(queue), opsets_(model.opsets) {}

    std::string write()
    {
        pb::ModelProto proto;
        proto.set_ir_version(std::max<std::int64_t>(model_.ir_version, 8));
        proto.set_producer_name(model_.producer);
        write_graph(*model_.graph, {}, *proto.mutable_graph());
        for (const auto& [domain, version] : opsets_) {
            auto& opset = *proto.add_opset_import();
            opset.set_domain(domain);
            opset.set_version(version);
        }
        for (const auto& [key, text] : model_.metadata) {
            auto& entry = *proto.add_metadata_props();
            entry.set_key(key);
            entry.set_value(text);
        }
        require<NotSupported>(proto.ByteSizeLong() < std::size_t{0x7fff0000}, "the model exceeds 2 GiB, the largest "
                              "size of an ONNX file");
        return proto.SerializeAsString();
    }

private:
    // A graph's values by slot, and where its nodes go.
    struct Scope {
        Names names;
        pb::GraphProto& proto;
    };

    // No two values of the file share a name, whatever the graph.
    std::string fresh(const std::string& wanted)
    {
        std::string name = wanted.empty() ? "v" : wanted;
        for (int i = 1; !taken_.insert(name).second; ++i)
            name = detail::concat(wanted.empty() ? "v" : wanted, "_", i);
        return name;
    }

    // Ports of the whole model keep their names, others get names of their own.
    void write_graph(const Graph& graph, const Names& outer, pb::GraphProto& proto)
    {
        Scope scope{Names(graph.slots.size()), proto};
        const bool whole = outer.empty() && &graph == model_.graph.get();
        proto.set_name(graph.name.empty() ? "graph" : graph.name);
        const auto name_of = [&](int slot) -> std::string& { return scope.names[static_cast<std::size_t>(slot)]; };
        std::set<int> elsewhere;                      // slots whose value no node here writes
        for (const auto& [there, own] : graph.captures) {
            name_of(own) = outer[static_cast<std::size_t>(there)];
            elsewhere.insert(own);
        }
        for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
            Port port = graph.input_ports[i];
            name_of(graph.inputs[i]) = port.name = whole ? (taken_.insert(port.name), port.name) : fresh(port.name);
            elsewhere.insert(graph.inputs[i]);
            write_port(port, *proto.add_input());
        }
        if (whole)
            for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
                taken_.insert(graph.output_ports[i].name);
                if (name_of(graph.outputs[i]).empty())
                    name_of(graph.outputs[i]) = graph.output_ports[i].name;
            }
        for (const auto& [slot, value] : graph.constants) {
            if (name_of(slot).empty())
                name_of(slot) = fresh(graph.slots[static_cast<std::size_t>(slot)]);
            write_constant(name_of(slot), value, proto);
        }
        for (const Node& node : graph.nodes)
            write_node(node, graph, scope);
        for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
            Port port = graph.output_ports[i];
            const std::string& value = name_of(graph.outputs[i]);
            port.name = whole ? port.name : value;
            if (port.name != value || (!whole && elsewhere.contains(graph.outputs[i]))) {
                port.name = whole ? port.name : fresh(value);
                add(proto, "Identity", {value}, port.name);
            }
            write_port(port, *proto.add_output());
        }
    }

    void write_constant(const std::string& name, const Value& value, pb::GraphProto& proto)
    {
        if (value.is_tensor() && value.dim() == 1)
            lengths_[name] = value.shape()[0];
        auto& tensor = *proto.add_initializer();
        write_tensor(value, queue_, tensor);
        tensor.set_name(name);
    }

    std::string constant(const Value& value, Scope& scope)
    {
        const std::string name = fresh("c");
        write_constant(name, value, scope.proto);
        return name;
    }

    Names given(const Node& node, const Scope& scope) const
    {
        Names names;
        for (const int slot : node.inputs)
            names.push_back(slot == absent ? "" : scope.names[static_cast<std::size_t>(slot)]);
        return names;
    }

    pb::NodeProto& add(pb::GraphProto& proto, const std::string& type, const Names& inputs, const std::string& output)
    {
        pb::NodeProto& node = *proto.add_node();
        node.set_op_type(type);
        for (const std::string& input : inputs)
            node.add_input(input);
        if (!output.empty())
            node.add_output(output);
        return node;
    }

    // Values that nodes of fused ones hand to each other.
    std::string step(Scope& scope, const std::string& type, const Names& inputs, const std::string& output = {})
    {
        const std::string name = output.empty() ? fresh("t") : output;
        add(scope.proto, type, inputs, name);
        return name;
    }

    void write_node(const Node& node, const Graph& graph, Scope& scope)
    {
        for (const int slot : node.outputs)
            if (slot != absent && scope.names[static_cast<std::size_t>(slot)].empty())
                scope.names[static_cast<std::size_t>(slot)] = fresh(graph.slots[static_cast<std::size_t>(slot)]);
        const std::string first = node.outputs.empty() || node.outputs[0] == absent
                                      ? "" : scope.names[static_cast<std::size_t>(node.outputs[0])];
        if (node.body)
            return write_body(*node.body, node, scope);
        if (node.domain == "clprim" && node.attributes.contains("operators"))
            return write_body(*attribute_of<GraphRef>(node, "operators", nullptr), node, scope);
        if (node.domain == "clprim" && node.op_type == "ChannelAffine")
            return write_affine(given(node, scope), first, scope);
        if (node.domain == "clprim" && node.op_type == "Linear") {
            const Names x = given(node, scope);
            step(scope, "Add", {step(scope, "MatMul", {x[0], x[1]}), x[2]}, first);
            return;
        }
        require<NotSupported>(node.domain != "clprim", "ONNX has no operator for ", node.op_type, " '", node.name, "'");
        if (node.domain == "com.microsoft" && node.op_type == "FusedConv" && write_convolution(node, first, scope))
            return;
        pb::NodeProto& proto = add(scope.proto, node.op_type, given(node, scope), "");
        const auto [opset, is_new] = opsets_.emplace(node.domain, node.opset);
        require<NotSupported>(opset->second == node.opset, node.op_type, " '", node.name, "' is of operator set ",
                              node.opset, ", others are of ", opset->second);
        proto.set_domain(node.domain);
        proto.set_name(node.name);
        for (const int slot : node.outputs)
            proto.add_output(slot == absent ? "" : scope.names[static_cast<std::size_t>(slot)]);
        write_attributes(node, scope, proto);
    }

    void write_attributes(const Node& node, Scope& scope, pb::NodeProto& proto)
    {
        for (const auto& [name, attribute] : node.attributes) {
            auto& target = *proto.add_attribute();
            target.set_name(name);
            std::visit([&](const auto& value) { write(value, scope, target); }, attribute);
        }
    }

    void write(std::int64_t value, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::INT);
        target.set_i(value);
    }
    void write(float value, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::FLOAT);
        target.set_f(value);
    }
    void write(const std::string& value, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::STRING);
        target.set_s(value);
    }
    void write(const std::vector<std::int64_t>& values, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::INTS);
        target.mutable_ints()->Add(values.begin(), values.end());
    }
    void write(const std::vector<float>& values, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::FLOATS);
        target.mutable_floats()->Add(values.begin(), values.end());
    }
    void write(const std::vector<std::string>& values, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::STRINGS);
        for (const std::string& text : values)
            target.add_strings(text);
    }
    void write(const Value& value, Scope&, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::TENSOR);
        write_tensor(value, queue_, *target.mutable_t());
    }
    void write(const GraphRef& graph, Scope& scope, pb::AttributeProto& target)
    {
        target.set_type(pb::AttributeProto::GRAPH);
        write_graph(*graph, scope.names, *target.mutable_g());
    }

    // The nodes of a function or of fused operators, where the call stands.
    void write_body(const Graph& body, const Node& node, Scope& scope)
    {
        Scope inner{Names(body.slots.size()), scope.proto};
        const auto name_of = [&](int slot) -> std::string& { return inner.names[static_cast<std::size_t>(slot)]; };
        for (std::size_t i = 0; i < body.inputs.size() && i < node.inputs.size(); ++i)
            name_of(body.inputs[i]) =
                node.inputs[i] == absent ? "" : scope.names[static_cast<std::size_t>(node.inputs[i])];
        std::vector<std::pair<std::string, std::string>> copies;
        for (std::size_t i = 0; i < body.outputs.size() && i < node.outputs.size(); ++i) {
            if (node.outputs[i] == absent || body.outputs[i] == absent)
                continue;
            const std::string& outside = scope.names[static_cast<std::size_t>(node.outputs[i])];
            if (name_of(body.outputs[i]).empty())
                name_of(body.outputs[i]) = outside;
            else
                copies.emplace_back(name_of(body.outputs[i]), outside);
        }
        for (const auto& [slot, value] : body.constants) {
            if (name_of(slot).empty())
                name_of(slot) = fresh(body.slots[static_cast<std::size_t>(slot)]);
            write_constant(name_of(slot), value, scope.proto);
        }
        for (const Node& one : body.nodes)
            write_node(one, body, inner);
        for (const auto& [from, to] : copies)
            add(scope.proto, "Identity", {from}, to);
    }

    // x * factor + shift, as a batch norm of mean 0 and variance 1.
    void write_affine(const Names& x, const std::string& output, Scope& scope)
    {
        const std::int64_t channels = lengths_.at(x[1]);
        Value ones = Value::zeros(ElementType::float32, {channels});
        std::ranges::fill(ones.mutable_host<float>(), 1.0f);
        pb::NodeProto& node = add(scope.proto, "BatchNormalization",
                                  {x[0], x[1], x[2], constant(Value::zeros(ElementType::float32, {channels}), scope),
                                   constant(ones, scope)},
                                  output);
        auto& epsilon = *node.add_attribute();
        epsilon.set_name("epsilon");
        write(0.0f, scope, epsilon);
    }

    // act(Conv(x, w, bias) + z); nothing is written where ONNX lacks the activation.
    bool write_convolution(const Node& node, const std::string& output, Scope& scope)
    {
        const auto set = opsets_.find("");
        const std::string activation = attribute_of<std::string>(node, "activation", "");
        const std::int64_t version = set == opsets_.end() ? 0 : set->second;
        static const std::set<std::string_view> known{"", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip",
                                                      "Silu", "Gelu", "GeluTanh"};
        if (version < 7 || !(known.contains(activation) || (activation == "HardSwish" && version >= 14)))
            return false;
        Names x = given(node, scope);
        const std::string z = x.size() > 3 ? x[3] : "";
        x.resize(std::min<std::size_t>(x.size(), x.size() > 2 && x[2].empty() ? 2 : 3));
        const bool ends = z.empty() && activation.empty();
        std::string y = ends ? output : fresh("t");
        pb::NodeProto& proto = add(scope.proto, "Conv", x, y);
        Node plain = node;
        plain.attributes.erase("activation");
        plain.attributes.erase("activation_params");
        write_attributes(plain, scope, proto);
        if (!z.empty())
            y = step(scope, "Add", {y, z}, activation.empty() ? output : "");
        if (!activation.empty())
            write_activation(activation, attribute_of<std::vector<float>>(node, "activation_params", {}), y, output,
                             scope);
        return true;
    }

    void write_activation(const std::string& activation, const std::vector<float>& numbers, const std::string& x,
                          const std::string& output, Scope& scope)
    {
        if (activation == "Silu") {
            step(scope, "Mul", {x, step(scope, "Sigmoid", {x})}, output);
            return;
        }
        if (activation == "Gelu" || activation == "GeluTanh")
            return write_gelu(activation == "GeluTanh", x, output, scope);
        const bool clips = activation == "Clip", by_input = clips && opsets_.at("") >= 11;
        Names inputs{x};
        for (std::size_t i = 0; by_input && i < numbers.size(); ++i)
            inputs.push_back(constant(Value::scalar(numbers[i]), scope));
        pb::NodeProto& node = add(scope.proto, activation, inputs, output);
        const char* names[] = {clips ? "min" : "alpha", clips ? "max" : "beta"};
        for (std::size_t i = 0; !by_input && i < numbers.size() && i < 2; ++i) {
            auto& attribute = *node.add_attribute();
            attribute.set_name(names[i]);
            write(numbers[i], scope, attribute);
        }
    }

    // Before operator set 20 of float32, and as fuse_gelu reads it.
    void write_gelu(bool by_tanh, const std::string& x, const std::string& output, Scope& scope)
    {
        if (opsets_.at("") >= 20) {
            auto& attribute = *add(scope.proto, "Gelu", {x}, output).add_attribute();
            attribute.set_name("approximate");
            return write(std::string(by_tanh ? "tanh" : "none"), scope, attribute);
        }
        const auto product = [&](const std::string& a, double b) {
            return step(scope, "Mul", {a, constant(Value::scalar(static_cast<float>(b)), scope)});
        };
        std::string inner;
        if (by_tanh) {
            const std::string cube = step(scope, "Mul", {step(scope, "Mul", {x, x}), x});
            const std::string sum = step(scope, "Add", {x, product(cube, 0.044715)});
            inner = step(scope, "Tanh", {product(sum, std::sqrt(2 / std::numbers::pi))});
        } else {
            inner = step(scope, "Erf", {product(x, 1 / std::numbers::sqrt2)});
        }
        const std::string sum = step(scope, "Add", {inner, constant(Value::scalar(1.0f), scope)});
        step(scope, "Mul", {step(scope, "Mul", {x, sum}), constant(Value::scalar(0.5f), scope)}, output);
    }

    const Model& model_;
    Queue& queue_;
    std::map<std::string, std::int64_t> opsets_, lengths_;   // lengths_: of constant vectors, by name
    std::set<std::string> taken_;
};

}  // namespace

std::string model_bytes(const Model& model, Queue& queue) { return ModelWriter(model, queue).write(); }

}  // namespace clprim::onnx
