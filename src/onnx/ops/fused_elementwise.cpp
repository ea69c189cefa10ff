// What fuse_elementwise.cpp makes.
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// One kernel computes every operator for every element of the result. That is right for floating-point operands of one
// dtype, and worth it if no operator alone would have had fewer elements to compute.
bool one_kernel(const Call& call, const Graph& operators, Dims& result)
{
    const DataType type = storage_type(call.type(0));
    std::vector<Dims> shapes(operators.slots.size());
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        if (!call.input(i).is_tensor() || call.type(i) != call.type(0) || is_narrow(call.type(i)))
            return false;
        shapes[static_cast<std::size_t>(operators.inputs[i])] = call.shape(i);
    }
    if (!is_floating_point(type))
        return false;
    for (const Node& node : operators.nodes) {
        Dims shape;
        for (const int slot : node.inputs)
            shape = broadcast(shape, shapes[static_cast<std::size_t>(slot)]);
        shapes[static_cast<std::size_t>(node.outputs[0])] = shape;
    }
    result = shapes[static_cast<std::size_t>(operators.outputs[0])];
    for (const Node& node : operators.nodes)
        if (shapes[static_cast<std::size_t>(node.outputs[0])] != result)
            return false;
    return true;
}

void elementwise(Call& call)
{
    const Graph& operators = *call.attribute<GraphRef>("operators");
    Dims shape;
    if (!one_kernel(call, operators, shape)) {
        std::vector<Value> arguments;
        for (std::size_t i = 0; i < call.inputs(); ++i)
            arguments.push_back(call.input(i));
        return call.output(0, call.run(operators, arguments)[0]);
    }
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i)
        inputs.push_back(call.tensor(i));
    Tensor y = call.allocate(shape, inputs[0].dtype);
    for (const Tensor& x : inputs)
        if (x.shape == shape && x.is_non_overlapping_and_dense()) {
            y.strides = x.strides;
            break;
        }
    call.output(0, Value(y));
    if (y.numel())
        pointwise(call.queue(), inputs, std::span(&y, 1), {}, call.attribute<std::string>("code"));
}

const OperatorRow rows[] = {{"Elementwise", 1, elementwise, nullptr, "clprim"}};

}  // namespace

std::span<const OperatorRow> fused_operators() { return rows; }

}  // namespace clprim::onnx
