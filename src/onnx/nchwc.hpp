#pragma once

#include "onnx/graph.hpp"

namespace clprim::onnx {

// Turns ONNX Runtime's operators of domain com.microsoft.nchwc, also in subgraphs, into ordinary ones.
void lower_nchwc(Graph& graph);

}  // namespace clprim::onnx
