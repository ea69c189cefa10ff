// A session's graph as an ONNX file.
#pragma once

#include <string>

#include <clprim/queue.hpp>

#include "onnx/graph.hpp"

namespace clprim::onnx {

// The bytes of a model in operators of ONNX and of the domains that the model came with: what fusions made is written
// as what it stands for. Waits for constants that are on the device. Throws NotSupported for what files cannot hold.
std::string model_bytes(const Model& model, Queue& queue);

}  // namespace clprim::onnx
