// Makes a model's graph ready to run: operators looked up, constants folded, operators fused.
#pragma once

#include <clprim/onnx.hpp>

#include "onnx/call.hpp"
#include "onnx/constants.hpp"

namespace clprim::onnx {

// A planned copy of the model's graph. All operators must be known (OnnxModel::unsupported is empty). A model that
// nobody else holds goes before its constants are uploaded, so that they are not there twice.
GraphRef prepare(std::shared_ptr<const Model> model, Engine& engine, const SessionOptions& options, Upload upload);

// Whether a node, or one inside of it, may do something else each time: it draws random numbers or calls a function
// that does not promise otherwise.
bool varies(const Node& node);

}  // namespace clprim::onnx
