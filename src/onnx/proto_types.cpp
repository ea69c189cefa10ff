#include "onnx/proto_types.hpp"

namespace clprim::onnx {

// Early exporters left the type out.
pb::AttributeProto::AttributeType kind_of(const pb::AttributeProto& proto)
{
    if (proto.type() != pb::AttributeProto::UNDEFINED)
        return proto.type();
    return proto.has_i() ? pb::AttributeProto::INT : proto.has_f() ? pb::AttributeProto::FLOAT
         : proto.has_s() ? pb::AttributeProto::STRING : proto.has_t() ? pb::AttributeProto::TENSOR
         : proto.has_g() ? pb::AttributeProto::GRAPH : proto.ints_size() ? pb::AttributeProto::INTS
         : proto.floats_size() ? pb::AttributeProto::FLOATS : pb::AttributeProto::STRINGS;
}

// Of a tensor or a map.
static void read_elements(const pb::TypeProto& proto, Port& port)
{
    const pb::TypeProto& elements = proto.has_map_type() ? proto.map_type().value_type() : proto;
    port.type = static_cast<ElementType>(elements.tensor_type().elem_type());
    if (proto.has_map_type())
        port.key = static_cast<ElementType>(proto.map_type().key_type());
}

Port read_type(const pb::TypeProto& proto)
{
    Port port;
    if (proto.has_sequence_type() || proto.has_optional_type()) {
        const pb::TypeProto* item = &proto;
        for (int depth = 0; depth < deepest && (item->has_sequence_type() || item->has_optional_type()); ++depth)
            item =
                item->has_sequence_type() ? &item->sequence_type().elem_type() : &item->optional_type().elem_type();
        port.kind = proto.has_sequence_type() ? Port::Kind::sequence : Port::Kind::optional;
        read_elements(*item, port);
        return port;
    }
    if (proto.has_map_type()) {
        port.kind = Port::Kind::map;
        read_elements(proto, port);
        return port;
    }
    if (!proto.has_tensor_type()) {
        port.kind = Port::Kind::other;
        return port;
    }
    port.type = static_cast<ElementType>(proto.tensor_type().elem_type());
    port.has_shape = proto.tensor_type().has_shape();
    for (const auto& size : proto.tensor_type().shape().dim()) {
        if (size.has_dim_value())
            port.shape.emplace_back(std::int64_t{size.dim_value()});
        else
            port.shape.emplace_back(size.dim_param());
    }
    return port;
}

Port read_port(const pb::ValueInfoProto& proto)
{
    Port port = read_type(proto.type());
    port.name = proto.name();
    return port;
}

}  // namespace clprim::onnx
