// From a message to a model.
#pragma once

#include <memory>

#include "onnx/graph.hpp"
#include "onnx/tensor_proto.hpp"

namespace clprim::onnx {

// Takes large tensors out of the message. Throws InvalidArgument for what is no valid model, NotSupported for kinds of
// attributes and values that no known operator has.
std::shared_ptr<Model> read_model(pb::ModelProto& proto, const ModelFolder& folder);

}  // namespace clprim::onnx
