// The derivative of each operator, as nodes of operators that have one themselves.
#include <algorithm>
#include <array>
#include <set>

#include <clprim/error.hpp>

#include "onnx/gradient.hpp"

namespace clprim::onnx {

namespace {

constexpr const char* own_domain = "clprim";

// --- elementwise

// g where x > 0, else `otherwise`.
int where_positive(Backward& b, int otherwise)
{
    return b.make("Where", {b.make("Greater", {b.x(), b.scalar(0, b.x())}), b.g(), otherwise});
}

void identity(Backward& b) { b.give(0, b.g()); }
void negative(Backward& b) { b.give(0, b.neg(b.g())); }
void absolute(Backward& b) { b.give(0, b.mul(b.g(), b.make("Sign", {b.x()}))); }
void exponential(Backward& b) { b.give(0, b.mul(b.g(), b.y())); }
void logarithm(Backward& b) { b.give(0, b.div(b.g(), b.x())); }
void square_root(Backward& b) { b.give(0, b.div(b.mul(b.g(), b.scalar(0.5, b.g())), b.y())); }
void reciprocal(Backward& b) { b.give(0, b.neg(b.mul(b.g(), b.mul(b.y(), b.y())))); }
void sine(Backward& b) { b.give(0, b.mul(b.g(), b.make("Cos", {b.x()}))); }
void cosine(Backward& b) { b.give(0, b.neg(b.mul(b.g(), b.make("Sin", {b.x()})))); }
void softplus(Backward& b) { b.give(0, b.mul(b.g(), b.make("Sigmoid", {b.x()}))); }
void relu(Backward& b) { b.give(0, where_positive(b, b.scalar(0, b.g()))); }

// Integers carry no gradient.
void cast(Backward& b)
{
    static const std::set<std::int64_t> real{1, 10, 11, 16};         // float32, float16, float64, bfloat16
    if (real.contains(b.integer("to", 0)))
        b.give(0, b.make("CastLike", {b.g(), b.x()}));
}

void cast_like(Backward& b) { b.give(0, b.make("CastLike", {b.g(), b.x()})); }

void sigmoid(Backward& b) { b.give(0, b.mul(b.g(), b.mul(b.y(), b.sub(b.scalar(1, b.y()), b.y())))); }
void hyperbolic_tangent(Backward& b) { b.give(0, b.mul(b.g(), b.sub(b.scalar(1, b.y()), b.mul(b.y(), b.y())))); }

void leaky_relu(Backward& b)
{
    b.give(0, where_positive(b, b.mul(b.g(), b.scalar(b.number("alpha", 0.01f), b.g()))));
}

// y + alpha is alpha exp(x) where x <= 0.
void elu(Backward& b)
{
    b.give(0, where_positive(b, b.mul(b.g(), b.add(b.y(), b.scalar(b.number("alpha", 1), b.y())))));
}

void error_function(Backward& b)
{
    const int slope = b.mul(b.scalar(1.1283791670955126, b.x()), b.make("Exp", {b.neg(b.mul(b.x(), b.x()))}));
    b.give(0, b.mul(b.g(), slope));                                  // 2 / sqrt(pi) exp(-x^2)
}

void clip(Backward& b)
{
    b.give(0, b.make("Where", {b.make("Equal", {b.x(), b.y()}), b.g(), b.scalar(0, b.g())}));
}

void add(Backward& b)
{
    for (std::size_t i = 0; i < b.inputs(); ++i)
        b.give_summed(i, b.g());
}

void mean(Backward& b)
{
    for (std::size_t i = 0; i < b.inputs(); ++i)
        b.give_summed(i, b.div(b.g(), b.scalar(static_cast<double>(b.inputs()), b.g())));
}

void subtract(Backward& b)
{
    b.give_summed(0, b.g());
    b.give_summed(1, b.neg(b.g()));
}

void multiply(Backward& b)
{
    b.give_summed(0, b.mul(b.g(), b.x(1)));
    b.give_summed(1, b.mul(b.g(), b.x(0)));
}

void divide(Backward& b)
{
    const int part = b.div(b.g(), b.x(1));
    b.give_summed(0, part);
    b.give_summed(1, b.neg(b.mul(part, b.y())));
}

// The base's is 0 where the exponent is, the exponent's where the base is.
void power(Backward& b)
{
    const int x = b.x(0), e = b.make("CastLike", {b.x(1), x}), zero = b.scalar(0, x), one = b.scalar(1, x);
    const int slope = b.mul(e, b.make("Pow", {x, b.sub(e, one)}));
    b.give_summed(0, b.mul(b.g(), b.make("Where", {b.make("Equal", {e, zero}), zero, slope})));
    const int logarithm = b.make("Where", {b.make("Equal", {x, zero}), zero, b.make("Log", {x})});
    b.give_summed(1, b.make("CastLike", {b.mul(b.g(), b.mul(b.y(), logarithm)), b.x(1)}));
}

void where(Backward& b)
{
    const int zero = b.scalar(0, b.g());
    b.give_summed(1, b.make("Where", {b.x(0), b.g(), zero}));
    b.give_summed(2, b.make("Where", {b.x(0), zero, b.g()}));
}

// --- products of matrices

int product_gradient(Backward& b, int g, int left, int right, std::int64_t operand)
{
    return b.make("MatMulGradient", {g, left, right}, {{"operand", operand}}, own_domain);
}

void matmul(Backward& b)
{
    for (const std::int64_t operand : {0, 1})
        b.give(static_cast<std::size_t>(operand), product_gradient(b, b.g(), b.x(0), b.x(1), operand));
}

// What goes back through a product goes back through two: h stands where the operand stood.
void matmul_gradient(Backward& b)
{
    const int h = b.g(), g = b.x(0), left = b.x(1), right = b.x(2);
    if (b.integer("operand", 0) == 0) {
        b.give(0, b.make("MatMul", {h, right}));
        b.give(2, product_gradient(b, g, h, right, 1));
    } else {
        b.give(0, b.make("MatMul", {left, h}));
        b.give(1, product_gradient(b, g, left, h, 0));
    }
}

void gemm(Backward& b)
{
    const std::int64_t turned_a = b.integer("transA", 0) != 0, turned_b = b.integer("transB", 0) != 0;
    const float alpha = b.number("alpha", 1);
    const auto product = [&](int left, int right, std::int64_t turn_left, std::int64_t turn_right) {
        return b.make("Gemm", {left, right}, {{"alpha", alpha}, {"transA", turn_left}, {"transB", turn_right}});
    };
    b.give(0, turned_a ? product(b.x(1), b.g(), turned_b, 1) : product(b.g(), b.x(1), 0, !turned_b));
    b.give(1, turned_b ? product(b.g(), b.x(0), 1, turned_a) : product(b.x(0), b.g(), !turned_a, 0));
    if (b.has(2))
        b.give_summed(2, b.mul(b.g(), b.scalar(b.number("beta", 1), b.g())));
}

// --- shapes

void reshape(Backward& b) { b.give(0, b.reshaped_like(b.g(), b.x())); }
void expand(Backward& b) { b.give_summed(0, b.g()); }
void sum_like(Backward& b) { b.give(0, b.expanded_like(b.g(), b.x())); }

void transpose(Backward& b)
{
    Attributes back;
    if (const auto found = b.node().attributes.find("perm"); found != b.node().attributes.end())
        if (const auto* axes = std::get_if<std::vector<std::int64_t>>(&found->second)) {
            std::vector<std::int64_t> inverse(axes->size());
            for (std::size_t i = 0; i < axes->size(); ++i) {
                const auto at = static_cast<std::size_t>((*axes)[i]);
                require(at < inverse.size(), "perm of Transpose names axis ", (*axes)[i], " of ", inverse.size());
                inverse[at] = static_cast<std::int64_t>(i);
            }
            back["perm"] = inverse;
        }
    b.give(0, b.make("Transpose", {b.g()}, back));
}

void concat(Backward& b)
{
    const std::int64_t axis = b.integer("axis", 1);
    std::vector<int> sizes;
    for (std::size_t i = 0; i < b.inputs(); ++i)
        sizes.push_back(b.make("Gather", {b.make("Shape", {b.x(i)}), b.constant(Value::ints(std::array{axis}))}));
    int begin = b.constant(Value::ints(std::array{std::int64_t{0}}));
    const int along = b.constant(Value::ints(std::array{axis}));
    for (std::size_t i = 0; i < b.inputs(); ++i) {
        const int end = b.add(begin, sizes[i]);
        b.give(i, b.make("Slice", {b.g(), begin, end, along}));
        begin = end;
    }
}

// --- reductions

// g with the reduced axes back, of size 1.
int with_reduced_axes(Backward& b)
{
    if (b.integer("keepdims", 1))
        return b.g();
    Attributes attributes = b.node().attributes;
    attributes["keepdims"] = std::int64_t{1};
    return b.reshaped_like(b.g(), b.again(std::move(attributes)));
}

void reduce_sum(Backward& b) { b.give(0, b.expanded_like(with_reduced_axes(b), b.x())); }

void reduce_mean(Backward& b)
{
    const int results = b.make("Max", {b.make("Size", {b.y()}), b.constant(Value::scalar(std::int64_t{1}))});
    const int count = b.div(b.make("Size", {b.x()}), results);
    b.give(0, b.expanded_like(b.div(with_reduced_axes(b), b.make("CastLike", {count, b.g()})), b.x()));
}

void reduce_sum_square(Backward& b)
{
    b.give(0, b.mul(with_reduced_axes(b), b.mul(b.scalar(2, b.x()), b.x())));
}

// The sum of t along the node's axis.
int along_axis(Backward& b, int t, std::int64_t axis)
{
    return b.make("ReduceSum", {t, b.constant(Value::ints(std::array{axis}))});
}

// Before operator set 13 all axes from `axis` on were one.
void softmax_like(Backward& b, int (*rule)(Backward&, int g, int y, std::int64_t axis))
{
    if (b.node().opset >= 13)
        return b.give(0, rule(b, b.g(), b.y(), b.integer("axis", -1)));
    const auto flat = [&](int t) { return b.make("Flatten", {t}, {{"axis", b.integer("axis", 1)}}); };
    b.give(0, b.reshaped_like(rule(b, flat(b.g()), flat(b.y()), 1), b.x()));
}

void softmax(Backward& b)
{
    softmax_like(b, [](Backward& step, int g, int y, std::int64_t axis) {
        return step.mul(step.sub(g, along_axis(step, step.mul(g, y), axis)), y);
    });
}

void log_softmax(Backward& b)
{
    softmax_like(b, [](Backward& step, int g, int y, std::int64_t axis) {
        return step.sub(g, step.mul(step.make("Exp", {y}), along_axis(step, g, axis)));
    });
}

struct RuleRow {
    const char* op;
    GradientRule rule;
    const char* domain = "";
};

constexpr RuleRow rules[] = {
    {"Identity", identity}, {"Neg", negative}, {"Abs", absolute}, {"Exp", exponential}, {"Log", logarithm},
    {"Sqrt", square_root}, {"Reciprocal", reciprocal}, {"Sin", sine}, {"Cos", cosine}, {"Softplus", softplus},
    {"Relu", relu}, {"Cast", cast}, {"CastLike", cast_like},
    {"Sigmoid", sigmoid}, {"Tanh", hyperbolic_tangent}, {"LeakyRelu", leaky_relu},
    {"Elu", elu}, {"Erf", error_function}, {"Clip", clip},
    {"Add", add}, {"Sum", add}, {"Mean", mean}, {"Sub", subtract}, {"Mul", multiply}, {"Div", divide}, {"Pow", power},
    {"Where", where},
    {"MatMul", matmul}, {"MatMulGradient", matmul_gradient, own_domain}, {"Gemm", gemm},
    {"Reshape", reshape}, {"Flatten", reshape}, {"Squeeze", reshape}, {"Unsqueeze", reshape}, {"Expand", expand},
    {"SumLike", sum_like, own_domain}, {"Transpose", transpose}, {"Concat", concat},
    {"ReduceSum", reduce_sum}, {"ReduceMean", reduce_mean}, {"ReduceSumSquare", reduce_sum_square},
    {"Softmax", softmax}, {"LogSoftmax", log_softmax},
};

}  // namespace

bool has_no_gradient(const Node& node)
{
    static const std::set<std::string_view> names{
        "Shape", "Size", "Sign", "Floor", "Ceil", "Round", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
        "ArgMax", "ArgMin", "IsNaN", "IsInf", "NonZero", "ConstantOfShape", "EyeLike"};
    return node.domain.empty() && names.contains(node.op_type);
}

GradientRule gradient_rule(const Node& node)
{
    const auto serves = [&](const RuleRow& row) { return node.op_type == row.op && node.domain == row.domain; };
    const auto* found = std::ranges::find_if(rules, serves);
    return found == std::end(rules) ? nullptr : found->rule;
}

}  // namespace clprim::onnx
