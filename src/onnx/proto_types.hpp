// What onnx.proto's messages say of types.
#pragma once

#include "onnx/graph.hpp"
#include "onnx_proto.pb.h"

namespace clprim::onnx {

namespace pb = ::onnx;

// Graphs in graphs, functions in functions, types in types: deeper ones are refused, as a function that calls itself
// would be endless.
inline constexpr int deepest = 64;

pb::AttributeProto::AttributeType kind_of(const pb::AttributeProto& proto);
Port read_type(const pb::TypeProto& proto);          // without a name
Port read_port(const pb::ValueInfoProto& proto);

}  // namespace clprim::onnx
