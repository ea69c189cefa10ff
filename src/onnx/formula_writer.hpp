// Rows of the table of elementwise operators in an ONNX graph: each says itself what it is there.
#pragma once

#include "onnx/graph_writer.hpp"

namespace clprim::onnx {

struct RowCall {
    const std::string& function;             // the row's name
    const std::vector<double>& values;       // its numbers w0, w1, ...
    const Names& inputs;
    const std::vector<TensorSpec>& specs;    // of the inputs
};

// Adds the nodes of a row, the last of which writes `output`. Throws NotSupported for a row that ONNX has nothing for.
void write_row(GraphWriter& graph, const RowCall& call, const std::string& output);

}  // namespace clprim::onnx
