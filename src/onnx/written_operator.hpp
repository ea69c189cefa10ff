// An operator of a net on its way into an ONNX graph.
#pragma once

#include <functional>
#include <map>

#include <clprim/operators.hpp>

#include "net/fields.hpp"
#include "onnx/graph_writer.hpp"

namespace clprim::onnx {

// With the names that its tensors have in the model.
struct Written {
    std::string name, type;
    Options options;
    Names inputs, parameters;
    std::vector<TensorSpec> specs;                    // of the inputs
    std::string output;
    TensorSpec result;
};

template <class Config>
Config config_of(const Written& op) { return Config::from_json(op.options); }

inline Ints list(const Dims& dims) { return {dims.begin(), dims.end()}; }

// Nodes of one operator, the last of which writes its output. Throws NotSupported for what ONNX has nothing for.
using WriteOperator = void (*)(GraphWriter& graph, const Written& op);

// The activation of x as the operator's output.
void activate(GraphWriter& graph, Activation activation, const std::string& x, const Written& op);
// One that an operator has built in, as the node behind it: `make(output)` writes the operator.
void activated(GraphWriter& graph, Activation activation, const Written& op,
               const std::function<void(const std::string& output)>& make);
void clip(GraphWriter& graph, const Written& op, const std::string& x, double low, double high);

// Operators of clprim/sequence_layers.hpp.
const std::map<std::string, WriteOperator>& written_sequence_operators();

}  // namespace clprim::onnx
