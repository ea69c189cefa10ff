#include "onnx/graph_writer.hpp"

#include <clprim/error.hpp>
#include <clprim/value.hpp>

namespace clprim::onnx {

namespace pb = ::onnx;

namespace {

void describe(pb::ValueInfoProto& port, const std::string& name, const TensorSpec& spec)
{
    port.set_name(name);
    auto& tensor = *port.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(static_cast<int>(element_type(spec.dtype)));
    auto& shape = *tensor.mutable_shape();           // present even if there is no axis
    for (const std::int64_t size : spec.shape)
        shape.add_dim()->set_dim_value(size);
}

void set(pb::AttributeProto& attribute, std::int64_t value)
{
    attribute.set_type(pb::AttributeProto::INT);
    attribute.set_i(value);
}
void set(pb::AttributeProto& attribute, float value)
{
    attribute.set_type(pb::AttributeProto::FLOAT);
    attribute.set_f(value);
}
void set(pb::AttributeProto& attribute, const std::string& value)
{
    attribute.set_type(pb::AttributeProto::STRING);
    attribute.set_s(value);
}
void set(pb::AttributeProto& attribute, const Ints& values)
{
    attribute.set_type(pb::AttributeProto::INTS);
    attribute.mutable_ints()->Add(values.begin(), values.end());
}

}  // namespace

std::string GraphWriter::take_name(const std::string& name) { return taken_.insert(name).second ? name : fresh(name); }

std::string GraphWriter::fresh(const std::string& base)
{
    for (;; ++counter_) {
        const std::string name = base + "." + std::to_string(counter_);
        if (!reserved_.contains(name) && taken_.insert(name).second)
            return name;
    }
}

void GraphWriter::input(const std::string& name, const TensorSpec& spec) { describe(*graph_.add_input(), name, spec); }
void GraphWriter::output(const std::string& name, const TensorSpec& spec)
{
    describe(*graph_.add_output(), name, spec);
}

void GraphWriter::initializer(const std::string& name, DataType dtype, const Dims& shape,
                              std::span<const std::byte> data)
{
    pb::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(static_cast<int>(element_type(dtype)));
    tensor.mutable_dims()->Add(shape.begin(), shape.end());
    tensor.set_raw_data(data.data(), data.size());
}

std::string GraphWriter::ints(const Ints& values)
{
    const std::string name = fresh(subject_);
    initializer(name, DataType::int64, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values)));
    return name;
}

std::string GraphWriter::number(double value, DataType dtype, const Dims& shape)
{
    const std::string name = fresh(subject_);
    const auto count = static_cast<std::size_t>(shape.product());
    if (dtype == DataType::float64) {
        const std::vector<double> values(count, value);
        initializer(name, dtype, shape, std::as_bytes(std::span(values)));
        return name;
    }
    const std::vector<float> values(count, static_cast<float>(value));
    initializer(name, DataType::float32, shape, std::as_bytes(std::span(values)));
    return dtype == DataType::float32 ? name : cast(name, dtype);
}

std::string GraphWriter::cast(const std::string& x, DataType dtype, const std::string& output)
{
    return node("Cast", {x}, {{"to", static_cast<std::int64_t>(element_type(dtype))}}, output);
}

std::string GraphWriter::node(const char* type, const Names& inputs, const WrittenAttributes& attributes,
                              const std::string& output)
{
    pb::NodeProto& node = *graph_.add_node();
    const int number = nodes_of_[subject_]++;
    node.set_op_type(type);
    node.set_name(number ? subject_ + "." + std::to_string(number) : subject_);
    for (const std::string& input : inputs)
        node.add_input(input);
    node.add_output(output.empty() ? fresh(subject_) : output);
    for (const auto& [name, value] : attributes) {
        pb::AttributeProto& attribute = *node.add_attribute();
        attribute.set_name(name);
        std::visit([&](const auto& given) { set(attribute, given); }, value);
    }
    return node.output(0);
}

std::string GraphWriter::model(int opset, int ir_version)
{
    require<NotSupported>(graph_.ByteSizeLong() < std::size_t{0x7fff0000}, "the parameters exceed 2 GiB, the largest "
                          "size of an ONNX file");
    pb::ModelProto model;
    model.set_ir_version(ir_version);
    model.set_producer_name("clprim");
    model.add_opset_import()->set_version(opset);
    graph_.set_name("net");
    *model.mutable_graph() = std::move(graph_);
    return model.SerializeAsString();
}

}  // namespace clprim::onnx
