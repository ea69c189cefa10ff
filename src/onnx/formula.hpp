// What a row of the table of elementwise operators is in ONNX: one operator, or a formula of several.
//
//     "Mul(x0, Sigmoid(x0))"     "LeakyRelu(x0; alpha=w0)"     "Mod(x0, x1; fmod=1)"
//
// x0.. are the inputs, w0.. the row's numbers, both also as attributes' values, which may be
// products such as w0*w2; numbers have the type of the operands.
// Bool(x) is true where x is not zero. Two formulas with | between them are for floating point and for integers. A
// product or quotient by a number that is 1 is left out.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clprim::onnx {

struct FormulaAttribute {
    std::string name, value;         // a number, or a word
};

struct Formula {
    enum class Kind { input, value, number, node };
    Kind kind = Kind::node;
    std::size_t index = 0;           // of an input or a value
    double number = 0;
    std::string type;                // of a node
    std::vector<Formula> operands;
    std::vector<FormulaAttribute> attributes;
    std::string text;                // the same text is the same value
};

// Throws InvalidArgument where the text is none.
Formula parse_formula(std::string_view text, bool integral);

}  // namespace clprim::onnx
