// Elementwise operators: rows of the pointwise table under their ONNX names.
#include "onnx/ops/activations.hpp"
#include "onnx/ops/elementwise.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/host_math.hpp"
#include "onnx/ops/result_like.hpp"

namespace clprim::onnx {

namespace {

// A number that the kernel takes: an attribute, or a constant where it has no name.
struct Parameter {
    const char* attribute = nullptr;
    float value = 0;
};

// An ONNX operator and the pointwise row that computes it.
struct Elementwise {
    const char* name;
    int since;
    const char* row;
    unsigned accepts = floating;             // Accepts
    const char* integer_row = nullptr;       // for integers, where that is another row
    bool predicate = false;                  // the result is boolean
    std::vector<Parameter> parameters = {};
    bool on_host = false;                    // has a twin in host_math
    std::size_t inputs() const;
};

// Whether code uses a variable.
bool uses(std::string_view code, std::string_view variable)
{
    const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (std::size_t at = code.find(variable); at != code.npos; at = code.find(variable, at + 1))
        if ((at == 0 || !is_name(code[at - 1])) && (at + 2 == code.size() || !is_name(code[at + 2])))
            return true;
    return false;
}

std::size_t Elementwise::inputs() const { return uses(pointwise_row(row).code, "x1") ? 2 : 1; }

constexpr float selu_alpha = 1.67326319217681884765625f, selu_gamma = 1.05070102214813232421875f;

const std::vector<Elementwise>& table()
{
    static const std::vector<Elementwise> rows{
        {"Add", 1, "add", numbers, nullptr, false, {{nullptr, 1}}, true},
        {"Sub", 1, "sub", numbers, nullptr, false, {{nullptr, 1}}, true},
        {"Mul", 1, "mul", numbers, nullptr, false, {}, true},
        {"Div", 1, "div", numbers, "div_trunc", false, {}, true},

        {"Equal", 1, "eq", any_real, nullptr, true, {}, true},
        {"Less", 1, "lt", numbers, nullptr, true, {}, true},
        {"LessOrEqual", 12, "le", numbers, nullptr, true, {}, true},
        {"Greater", 1, "gt", numbers, nullptr, true, {}, true},
        {"GreaterOrEqual", 12, "ge", numbers, nullptr, true, {}, true},
        {"And", 1, "logical_and", boolean_type, nullptr, true, {}, true},
        {"Or", 1, "logical_or", boolean_type, nullptr, true, {}, true},
        {"Xor", 1, "logical_xor", boolean_type, nullptr, true, {}, true},
        {"Not", 1, "logical_not", boolean_type, nullptr, true, {}, true},
        {"BitwiseAnd", 18, "bitwise_and", integral},
        {"BitwiseOr", 18, "bitwise_or", integral},
        {"BitwiseXor", 18, "bitwise_xor", integral},
        {"BitwiseNot", 18, "bitwise_not", integral},

        {"Abs", 1, "abs", numbers, "abs_integer", false, {}, true},
        {"Neg", 1, "neg", numbers, nullptr, false, {}, true},
        {"Sign", 9, "sign", numbers, nullptr, false, {}, true},
        {"Ceil", 1, "ceil", floating, nullptr, false, {}, true},
        {"Floor", 1, "floor", floating, nullptr, false, {}, true},
        {"Round", 11, "round"},
        {"Sqrt", 1, "sqrt", floating, nullptr, false, {}, true},
        {"Reciprocal", 1, "reciprocal", floating, nullptr, false, {}, true},
        {"Exp", 1, "exp"},
        {"Log", 1, "log"},
        {"Sin", 7, "sin"}, {"Cos", 7, "cos"}, {"Tan", 7, "tan"},
        {"Asin", 7, "asin"}, {"Acos", 7, "acos"}, {"Atan", 7, "atan"},
        {"Sinh", 9, "sinh"}, {"Cosh", 9, "cosh"}, {"Tanh", 1, "tanh"},
        {"Asinh", 9, "asinh"}, {"Acosh", 9, "acosh"}, {"Atanh", 9, "atanh"},
        {"Erf", 9, "erf", numbers, "erf_integer"},

        {"Relu", 1, "relu", numbers},
        {"Sigmoid", 1, "sigmoid"},
        {"LeakyRelu", 1, "leaky_relu", floating, nullptr, false, {{"alpha", 0.01f}}},
        {"ThresholdedRelu", 10, "threshold", floating, nullptr, false, {{"alpha", 1}, {nullptr, 0}}},
        {"Elu", 1, "elu", floating, nullptr, false, {{"alpha", 1}, {nullptr, 1}, {nullptr, 1}}},
        {"Selu", 1, "elu", floating, nullptr, false, {{"alpha", selu_alpha}, {"gamma", selu_gamma}, {nullptr, 1}}},
        {"Celu", 12, "celu", floating, nullptr, false, {{"alpha", 1}}},
        {"HardSigmoid", 1, "clamped_affine", floating, nullptr, false, {{"alpha", 0.2f}, {"beta", 0.5f}}},
        {"HardSwish", 14, "hardswish"},
        {"Mish", 18, "mish"},
        {"Softplus", 1, "softplus", floating, nullptr, false, {{nullptr, 1}, {nullptr, 40}}},
        {"Softsign", 1, "softsign"},
        {"Swish", 24, "swish", floating, nullptr, false, {{"alpha", 1}}},
    };
    return rows;
}

const Elementwise& elementwise_row(std::string_view name)
{
    static const auto by_name = [] {
        std::map<std::string_view, const Elementwise*> result;
        for (const Elementwise& row : table())
            result.emplace(row.name, &row);
        return result;
    }();
    return *by_name.at(name);
}

// Equal of strings.
void equal_strings(Call& call)
{
    const Dims shape = broadcast_inputs(call);
    Value result = Value::zeros(ElementType::boolean, shape);
    const auto out = result.mutable_host<std::uint8_t>();
    const auto &a = call.input(0).strings(), &b = call.input(1).strings();
    for_each_broadcast(shape, {call.shape(0), call.shape(1)},
                       [&](std::size_t i, const auto& at) { out[i] = a[at[0]] == b[at[1]]; });
    call.output(0, std::move(result));
}

// Input 1 in the shape in which it broadcasts. Before operator set 7 it could line up with axes in the middle of input
// 0: attribute `axis` says the first of them.
Tensor second_operand(const Call& call)
{
    const Tensor y = call.tensor(1);
    if (call.opset() >= 7 || !call.has_attribute("axis"))
        return y;
    const std::size_t dims = call.shape(0).size(), axis = call.axis(call.integer_attribute("axis", 0), dims);
    call.check(axis + y.dim() <= dims, "axis ", axis, " leaves no room for the ", y.dim(), " dimensions of input 1");
    Dims shape = y.shape;
    shape.resize(dims - axis);
    std::fill(shape.begin() + y.dim(), shape.end(), 1);
    return call.contiguous(1).reshape(shape);
}

void elementwise(Call& call)
{
    const Elementwise& row = elementwise_row(call.node().op_type);
    call.check(call.inputs() == row.inputs(), "takes ", row.inputs(), " inputs, has ", call.inputs());
    if (call.type(0) == ElementType::string && std::string_view(row.row) == "eq")
        return equal_strings(call);
    check_types(call, row.accepts);
    std::vector<Tensor> inputs{call.tensor(0)};
    if (call.inputs() > 1)
        inputs.push_back(second_operand(call));
    const DataType type = inputs[0].dtype;
    std::vector<Scalar> scalars;
    for (const Parameter& parameter : row.parameters)
        scalars.push_back(parameter.attribute ? call.float_attribute(parameter.attribute, parameter.value)
                                              : parameter.value);
    const char* name = row.integer_row && class_of(type) != floating ? row.integer_row : row.row;
    pointwise_output(call, name, inputs, row.predicate ? DataType::boolean : type, scalars);
}

// Remainders: of the floor by default, of truncation with `fmod`.
void mod(Call& call)
{
    check_types(call, numbers);
    const Tensor inputs[] = {call.tensor(0), call.tensor(1)};
    const bool truncated = call.integer_attribute("fmod", 0) != 0, real = is_floating_point(inputs[0].dtype);
    pointwise_output(call, truncated ? "fmod" : real ? "floor_mod" : "remainder", inputs, inputs[0].dtype);
}

void bit_shift(Call& call)
{
    check_types(call, integral);
    const std::string direction = call.attribute<std::string>("direction");
    call.check(direction == "LEFT" || direction == "RIGHT", "direction is ", direction, ", expected LEFT or RIGHT");
    const Tensor inputs[] = {call.tensor(0), call.tensor(1)};
    pointwise_output(call, direction == "LEFT" ? "bitwise_left_shift" : "bitwise_right_shift", inputs, inputs[0].dtype);
}

// The result has the type of the base, whatever the type of the exponent.
void pow(Call& call)
{
    for (const std::size_t i : {0u, 1u})
        check_type(call, i, numbers);
    const Tensor x = call.tensor(0), y = second_operand(call);
    DataType common = x.dtype;
    if (!is_floating_point(x.dtype) && is_floating_point(y.dtype))
        common = size_of(x.dtype) > 2 && call.queue().device().fp64 ? DataType::float64 : y.dtype;
    else if (!is_floating_point(x.dtype) && x.dtype != y.dtype)
        common = DataType::int64;
    else if (x.dtype != DataType::float64 && y.dtype == DataType::float64)
        common = DataType::float64;
    pointwise_output(call, {.row = "pow", .inputs = {x, y}, .type = call.type(0), .common = common});
}

// Max, Min, Sum and Mean of any number of inputs, in one kernel as long as its operands suffice.
void variadic(Call& call)
{
    const std::string& name = call.node().op_type;
    const bool extreme = name == "Max" || name == "Min";
    check_types(call, extreme ? unsigned{numbers} : unsigned{floating});
    call.check(call.inputs() > 0, "there is no input");
    if (call.inputs() == 1)
        return call.output(0, call.input(0));
    constexpr std::size_t most = 8;
    const auto joined = [&](const std::string& a, const std::string& b) {
        return extreme ? detail::concat(name == "Max" ? "maximum(" : "minimum(", a, ", ", b, ")")
                       : detail::concat(a, " + ", b);
    };
    Tensor sum = call.tensor(0);
    const Dims shape = broadcast_inputs(call);
    for (std::size_t i = 1; i < call.inputs();) {
        std::vector<Tensor> inputs{sum};
        std::string code = "x0";
        for (; i < call.inputs() && inputs.size() < most; ++i) {
            code = joined(code, detail::concat("x", inputs.size()));
            inputs.push_back(call.tensor(i));
        }
        if (name == "Mean" && i == call.inputs())
            code = detail::concat("(", code, ") / ", call.inputs());
        // Partial sums of short floats are kept in float32.
        const bool whole = i == call.inputs(), narrow = !extreme && size_of(sum.dtype) == 2;
        sum = whole ? result_like(call, inputs, shape, call.tensor(0).dtype)
                    : call.allocate(shape, narrow ? DataType::float32 : sum.dtype);
        pointwise(call.queue(), inputs, {&sum, 1}, {}, detail::concat("y0 = ", code, ";"));
    }
    call.output(0, Value(sum));
}

void where_strings(Call& call)
{
    const Dims shape = broadcast_inputs(call);
    std::vector<std::string> result(static_cast<std::size_t>(shape.product()));
    const auto condition = call.input(0).host<std::uint8_t>(call.queue());
    const auto &x = call.input(1).strings(), &y = call.input(2).strings();
    for_each_broadcast(shape, {call.shape(0), call.shape(1), call.shape(2)},
                       [&](std::size_t i, const auto& at) { result[i] = condition[at[0]] ? x[at[1]] : y[at[2]]; });
    call.output(0, Value::strings(shape, std::move(result)));
}

void where(Call& call)
{
    call.check(call.type(0) == ElementType::boolean, "the condition is ", name_of(call.type(0)), ", expected bool");
    call.check(call.type(1) == call.type(2), "X is ", name_of(call.type(1)), " and Y is ", name_of(call.type(2)));
    if (call.type(1) == ElementType::string)
        return where_strings(call);
    const Tensor x = call.tensor(1);
    pointwise_output(
        call, {.row = "where", .inputs = {call.tensor(0), x, call.tensor(2)}, .type = call.type(1), .common = x.dtype});
}

void is_inf(Call& call)
{
    const Tensor x = as_floating(call, 0);
    const bool negative = call.integer_attribute("detect_negative", 1),
               positive = call.integer_attribute("detect_positive", 1);
    const Tensor y = call.output_tensor(0, x.shape, ElementType::boolean);
    const char* code = negative && positive ? "y0 = isinf(x0) != 0;"
                       : negative           ? "y0 = x0 == -INFINITY;"
                       : positive           ? "y0 = x0 == INFINITY;"
                                            : "y0 = 0;";
    pointwise(call.queue(), {&x, 1}, {&y, 1}, {}, code);
}

void is_nan(Call& call)
{
    const Tensor x = as_floating(call, 0);
    pointwise_output(call, {.row = "isnan", .inputs = {x}, .type = ElementType::boolean, .common = x.dtype});
}

const std::vector<OperatorRow>& operators()
{
    static const std::vector<OperatorRow> rows = [] {
        std::vector<OperatorRow> result;
        for (const Elementwise& row : table())
            result.push_back(
                {row.name, row.since, elementwise, row.on_host ? host_or<try_host_math, elementwise> : nullptr});
        const OperatorRow others[] = {
            {"Mod", 10, mod, host_or<try_host_math, mod>},
            {"BitShift", 11, bit_shift},
            {"Pow", 1, pow},
            {"Max", 1, variadic, host_or<try_host_math, variadic>},
            {"Min", 1, variadic, host_or<try_host_math, variadic>},
            {"Sum", 1, variadic},
            {"Mean", 1, variadic},
            {"Clip", 1, clip},
            {"Shrink", 9, shrink},
            {"Where", 9, where, host_or<try_host_where, where>},
            {"PRelu", 1, prelu},
            {"IsInf", 10, is_inf},
            {"IsNaN", 9, is_nan},
            {"Gelu", 20, gelu},
            {"Gelu", 1, gelu, nullptr, "clprim"},
            {"SwiGLU", 28, swiglu},
        };
        result.insert(result.end(), std::begin(others), std::end(others));
        return result;
    }();
    return rows;
}

}  // namespace

Activation gelu_of(const Node& node)
{
    if (node.body || node.inputs.size() != 1 || node.outputs.size() != 1)
        return Activation::none;
    if (node.domain == "com.microsoft")
        return node.op_type == "Gelu"       ? Activation::gelu
               : node.op_type == "FastGelu" ? Activation::gelu_tanh
                                            : Activation::none;
    if (node.op_type != "Gelu" || !(node.domain.empty() || node.domain == "clprim"))
        return Activation::none;
    const auto approximate = attribute_of<std::string>(node, "approximate", "none");
    return approximate == "none"   ? Activation::gelu
           : approximate == "tanh" ? Activation::gelu_tanh
                                   : Activation::none;
}

ElementwiseCode elementwise_code(const Node& node)
{
    if (node.domain == "clprim" && node.op_type == "ChannelAffine")
        return {"y0 = x0 * x1 + x2;", {}};
    const auto row_code = [](const char* row, std::vector<float> numbers = {}) {
        return ElementwiseCode{pointwise_row(row).library ? nullptr : pointwise_row(row).code, std::move(numbers)};
    };
    if (const auto gelu = gelu_of(node); gelu != Activation::none)
        return row_code(gelu == Activation::gelu ? "gelu" : "gelu_tanh");
    if (!node.domain.empty() || node.opset < 7)
        return {};
    const bool all_given = std::ranges::find(node.inputs, absent) == node.inputs.end();
    if (node.op_type == "Pow" && node.inputs.size() == 2)
        return row_code("pow");
    if (node.op_type == "Clip" && node.opset >= 11 && node.inputs.size() == 3 && all_given)
        return row_code("clamp");
    if ((node.op_type == "Max" || node.op_type == "Min") && node.inputs.size() == 2)
        return row_code(node.op_type == "Max" ? "maximum" : "minimum");
    for (const Elementwise& row : table()) {
        if (row.name != node.op_type || row.predicate || !(row.accepts & floating) || node.opset < row.since)
            continue;
        if (node.inputs.size() != row.inputs())
            return {};
        std::vector<float> numbers;
        for (const Parameter& parameter : row.parameters) {
            const auto given = parameter.attribute ? node.attributes.find(parameter.attribute) : node.attributes.end();
            const bool usual = given == node.attributes.end();
            if (!usual && !std::holds_alternative<float>(given->second))
                return {};
            numbers.push_back(usual ? parameter.value : std::get<float>(given->second));
        }
        return row_code(row.row, std::move(numbers));
    }
    return {};
}

const char* predicate_code(const Node& node)
{
    for (const Elementwise& row : table())
        if (row.predicate && node.domain.empty() && row.name == node.op_type && node.opset >= std::max(row.since, 7) &&
            node.inputs.size() == row.inputs())
            return pointwise_row(row.row).code;
    return nullptr;
}

std::span<const OperatorRow> math_operators() { return operators(); }

}  // namespace clprim::onnx
