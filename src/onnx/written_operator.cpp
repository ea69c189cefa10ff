#include "onnx/written_operator.hpp"

namespace clprim::onnx {

void clip(GraphWriter& graph, const Written& op, const std::string& x, double low, double high)
{
    graph.node("Clip", {x, graph.number(low, op.result.dtype), graph.number(high, op.result.dtype)}, {}, op.output);
}

void activate(GraphWriter& graph, Activation activation, const std::string& x, const Written& op)
{
    switch (activation) {
    case Activation::relu: graph.node("Relu", {x}, {}, op.output); break;
    case Activation::tanh: graph.node("Tanh", {x}, {}, op.output); break;
    case Activation::sigmoid: graph.node("Sigmoid", {x}, {}, op.output); break;
    case Activation::relu6: clip(graph, op, x, 0, 6); break;
    case Activation::none: graph.node("Identity", {x}, {}, op.output); break;
    default: throw NotSupported("nets have no such activation");
    }
}

void activated(GraphWriter& graph, Activation activation, const Written& op,
               const std::function<void(const std::string& output)>& make)
{
    if (activation == Activation::none)
        return make(op.output);
    const std::string linear = graph.fresh(op.name);
    make(linear);
    activate(graph, activation, linear, op);
}

}  // namespace clprim::onnx
