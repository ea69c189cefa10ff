#include "onnx/formula_writer.hpp"

#include <cctype>

#include <fmt/format.h>

#include <clprim/pointwise.hpp>

#include "onnx/formula.hpp"

namespace clprim::onnx {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class FormulaWriter {
public:
    FormulaWriter(GraphWriter& graph, const RowCall& call)
        : graph_(graph), call_(call), common_(call.specs[call.specs.size() > 1 ? 1 : 0].dtype)
    {
    }

    void write(std::string_view text, const std::string& output)
    {
        const bool is_formula = text.find('(') != text.npos;
        write(is_formula ? parse_formula(text, !is_floating_point(common_)) : one_node(text), output);
    }

private:
    // A name alone is an operator of the row's inputs.
    Formula one_node(std::string_view type) const
    {
        Formula result;
        result.type = type;
        for (std::size_t i = 0; i < call_.inputs.size(); ++i)
            result.operands.push_back({Formula::Kind::input, i, 0, {}, {}, {}, fmt::format("x{}", i)});
        return result;
    }

    // Writes a formula, or finds it where it has been written, and returns its name: `output` if that is given.
    std::string write(const Formula& f, const std::string& output = {})
    {
        if (const auto known = written_.find(f.text); known != written_.end() && output.empty())
            return known->second;
        return written_[f.text] = write_new(f, output);
    }

    std::string write_new(const Formula& f, const std::string& output)
    {
        switch (f.kind) {
        case Formula::Kind::input: return call_.inputs.at(f.index);
        case Formula::Kind::value: return graph_.number(call_.values.at(f.index), common_);
        case Formula::Kind::number: return graph_.number(f.number, common_);
        case Formula::Kind::node: break;
        }
        if (f.type == "Bool")
            return boolean(f.operands[0], output);
        if (f.type == "Mul" && is_one(f.operands[0]))
            return passed(f.operands[1], output);
        if ((f.type == "Mul" || f.type == "Div") && is_one(f.operands[1]))
            return passed(f.operands[0], output);
        Names inputs;
        for (const Formula& operand : f.operands)
            inputs.push_back(write(operand));
        WrittenAttributes attributes;
        for (const FormulaAttribute& attribute : f.attributes)
            attributes.push_back({attribute.name.c_str(), value_of(attribute.value)});
        return graph_.node(f.type.c_str(), inputs, attributes, output);
    }

    bool is_one(const Formula& operand) const
    {
        return (operand.kind == Formula::Kind::value && call_.values.at(operand.index) == 1) ||
               (operand.kind == Formula::Kind::number && operand.number == 1);
    }

    std::string passed(const Formula& operand, const std::string& output)
    {
        const std::string name = write(operand);
        return output.empty() ? name : graph_.node("Identity", {name}, {}, output);
    }

    std::string boolean(const Formula& operand, const std::string& output)
    {
        const std::string x = write(operand);
        const bool is_boolean =
            operand.kind == Formula::Kind::input && call_.specs.at(operand.index).dtype == DataType::boolean;
        return is_boolean && output.empty() ? x : graph_.cast(x, DataType::boolean, output);
    }

    // Whole numbers without a point are integers, others floats; w0.. are the row's.
    std::variant<std::int64_t, float, std::string, Ints> value_of(const std::string& text) const
    {
        if (const std::size_t times = text.find('*'); times != text.npos)
            return std::get<float>(value_of(text.substr(0, times))) * std::get<float>(value_of(text.substr(times + 1)));
        if (text.size() == 2 && text[0] == 'w' && is_digit(text[1]))
            return static_cast<float>(call_.values.at(static_cast<std::size_t>(text[1] - '0')));
        if (text.find_first_not_of("-0123456789") == text.npos)
            return std::int64_t{std::stoll(text)};
        if (text.find_first_not_of("-.0123456789") == text.npos)
            return std::stof(text);
        return text;
    }

    GraphWriter& graph_;
    const RowCall& call_;
    DataType common_;
    std::map<std::string, std::string> written_;   // names by text
};

}  // namespace

void write_row(GraphWriter& graph, const RowCall& call, const std::string& output)
{
    const PointwiseRow& row = pointwise_row(call.function);
    require<NotSupported>(row.onnx != nullptr, "ONNX has no operator for the function ", call.function);
    FormulaWriter(graph, call).write(row.onnx, output);
}

}  // namespace clprim::onnx
