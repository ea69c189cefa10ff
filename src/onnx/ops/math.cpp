// Elementwise operators: rows of the pointwise table under their ONNX names.
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

struct Elementwise {
    std::string_view onnx, row;
    bool predicate = false;                  // the result is boolean
    std::vector<Scalar> scalars = {};
};

const Elementwise& elementwise_row(std::string_view onnx)
{
    static const std::map<std::string_view, Elementwise> rows = [] {
        const Elementwise list[] = {
            {"Add", "add", false, {1}}, {"Sub", "sub", false, {1}}, {"Mul", "mul"},
            {"Relu", "relu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"Exp", "exp"}, {"Sqrt", "sqrt"},
        };
        std::map<std::string_view, Elementwise> result;
        for (const Elementwise& row : list)
            result.emplace(row.onnx, row);
        return result;
    }();
    return rows.at(onnx);
}

void elementwise(Call& call)
{
    const Elementwise& row = elementwise_row(call.node().op_type);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < call.inputs(); ++i) {
        call.check(call.type(i) == call.type(0), "input ", i, " is ", name_of(call.type(i)), ", expected ",
                   name_of(call.type(0)));
        inputs.push_back(call.tensor(i));
    }
    pointwise_output(call, row.row, inputs, row.predicate ? DataType::boolean : inputs[0].dtype, row.scalars);
}

const OperatorRow rows[] = {
    {"Add", 7, elementwise}, {"Sub", 7, elementwise}, {"Mul", 7, elementwise},
    {"Relu", 6, elementwise}, {"Sigmoid", 6, elementwise}, {"Tanh", 6, elementwise}, {"Exp", 6, elementwise},
    {"Sqrt", 6, elementwise},
};

}  // namespace

std::span<const OperatorRow> math_operators() { return rows; }

}  // namespace clprim::onnx
