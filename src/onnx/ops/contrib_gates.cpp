// com.microsoft's gates and the streams of hyper-connections. What their definitions compute in float32 is computed
// there whatever the tensors hold.
#include <cmath>

#include <clprim/context.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Composed operators in float32.
class InFloats {
public:
    explicit InFloats(const Call& call) : call_(call), op_(call) {}

    Value operator()(std::size_t i) const { return op_.cast(call_.input(i), ElementType::float32); }
    Value apply(std::string_view name, std::vector<Value> inputs, Attributes attributes = {}) const
    {
        return op_(name, std::move(inputs), std::move(attributes));
    }
    Value shaped(const Value& x, const Dims& shape) const
    {
        call_.check(x.numel() == shape.product(), "shape ", to_string(x.shape()), " does not fit ", to_string(shape));
        return x.reshaped(shape, call_.queue());
    }
    // x / sqrt(mean(x^2) + epsilon) over the last axis.
    Value rms(const Value& x) const
    {
        Value ones = Value::zeros(ElementType::float32, {x.shape().back()});
        std::ranges::fill(ones.mutable_host<float>(), 1.0F);
        return op_("RMSNormalization", {x, ones}, {{"axis", std::int64_t{-1}},
                                                   {"epsilon", call_.float_attribute("epsilon", 1e-5F)}});
    }
    // code over float32 tensors, broadcast to `shape`, as a value of `type`.
    Value elementwise(std::span<const Value> inputs, const Dims& shape, std::string_view code,
                      std::span<const Scalar> numbers = {}) const
    {
        std::vector<Tensor> tensors;
        for (const Value& input : inputs) {
            call_.check(broadcast(input.shape(), shape) == shape, "shape ", to_string(input.shape()),
                        " does not broadcast to ", to_string(shape));
            tensors.push_back(input.device(call_.queue()));
        }
        const Tensor y = call_.allocate(shape, DataType::float32);
        pointwise(call_.queue(), tensors, std::span(&y, 1), numbers, code);
        return Value(y);
    }
    Value rounded(const Value& x) const { return op_.cast(x, call_.type(0)); }
    Value widened(const Value& x) const { return op_.cast(x, ElementType::float32); }

private:
    const Call& call_;
    const Compose op_;
};

void gated_rms_norm(Call& call)
{
    const InFloats f(call);
    const std::string activation = call.string_attribute("activation", "silu");
    call.check(activation == "silu" || activation == "swish" || activation == "sigmoid", "activation is '", activation,
               "', expected silu, swish or sigmoid");
    const Dims shape = call.shape(0);
    const std::int64_t width = call.shape(1).size() == 1 ? call.shape(1)[0] : 0;
    call.check(!shape.empty() && width > 0 && shape.back() % width == 0 && call.shape(2) == shape, "X ",
               to_string(shape), ", scale ", to_string(call.shape(1)), " and gate ", to_string(call.shape(2)),
               " do not fit");
    const Dims rows{shape.product() / width, width};
    const Value parts[] = {f.rms(f.shaped(f(0), rows)), f(1), f.shaped(f(2), rows)};
    const Value y = f.elementwise(parts, rows, activation == "sigmoid" ? "y0 = x0 * x1 / (1 + exp(-x2));"
                                                                      : "y0 = x0 * x1 * x2 / (1 + exp(-x2));");
    call.output(0, f.rounded(f.shaped(y, shape)));
}

// Input 0 as [..., branches, size], whichever form it has.
Dims grouped_shape(const Call& call)
{
    Dims shape = call.shape(0);
    const std::int64_t branches = call.integer_attribute("num_branches", 0);
    if (branches == 0) {
        call.check(shape.size() >= 2, "input 0 has shape ", to_string(shape), ", expected [..., branches, size]");
        return shape;
    }
    call.check(branches > 0 && !shape.empty() && shape.back() % branches == 0, "input 0 ", to_string(shape),
               " has not ", branches, " branches");
    const std::int64_t size = shape.back() / branches;
    shape[shape.size() - 1] = branches;
    shape.push_back(size);
    return shape;
}

void branchwise_rms_norm(Call& call)
{
    const InFloats f(call);
    const Dims shape = grouped_shape(call);
    Value y = f.rms(f.shaped(f(0), shape));
    if (call.has(1)) {
        const std::int64_t size = shape.back(), branches = shape[shape.size() - 2];
        const Value scale = call.shape(1).product() == size ? f(1) : f.shaped(f(1), {branches, size});
        y = f.apply("Mul", {y, scale});
    }
    call.output(0, f.rounded(f.shaped(y, call.shape(0))));
}

// Gates of input `i` as something that broadcasts to `shape`: for each branch, or for each of its features.
Value gates_of(const Call& call, const InFloats& f, std::size_t i, const Dims& shape)
{
    Dims each = shape;
    each[shape.size() - 1] = 1;
    const std::int64_t given = call.shape(i).product();
    call.check(given == each.product() || given == shape.product(), "gates ", to_string(call.shape(i)),
               " do not fit streams ", to_string(shape));
    return f.shaped(f(i), given == shape.product() && call.shape(i).back() != 1 ? shape : each);
}

void hyper_connection_pre_mix(Call& call)
{
    const InFloats f(call);
    const Dims shape = grouped_shape(call);
    const Value parts[] = {f.shaped(f(0), shape), gates_of(call, f, 1, shape)};
    const std::array<Scalar, 1> scale{call.float_attribute("reduction_scale", 1)};
    const Value product = f.elementwise(parts, shape, "y0 = x0 * x1 * w0;", scale);
    call.output(0, f.rounded(f.apply("ReduceSum", {product, Value::ints(std::array{std::int64_t{-2}})},
                                     {{"keepdims", std::int64_t{0}}})));
}

void hyper_connection_post_mix(Call& call)
{
    const InFloats f(call);
    const Dims shape = grouped_shape(call);
    Value streams = f.shaped(f(0), shape);
    if (call.has(3)) {
        Dims square = shape;
        square[shape.size() - 1] = shape[shape.size() - 2];
        streams = f.apply("com.microsoft.FusedMatMul", {f.shaped(f(3), square), streams},
                          {{"transA", std::int64_t{1}}});
    }
    Dims block = shape;
    block[shape.size() - 2] = 1;
    const Value parts[] = {streams, gates_of(call, f, 2, shape), f.shaped(f(1), block)};
    call.output(0, f.rounded(f.shaped(f.elementwise(parts, shape, "y0 = x0 + x1 * x2;"), call.shape(0))));
}

// A whole block: the mix behind the block before, norms of the branches, gates of low rank, the mix ahead. Each step is
// rounded to the tensors' type.
void hyper_connection_low_rank_mix(Call& call)
{
    const InFloats f(call);
    const Dims shape = grouped_shape(call);
    const std::int64_t size = shape.back(), branches = shape[shape.size() - 2], width = branches * size;
    const Dims rows{shape.product() / std::max<std::int64_t>(1, width), branches, size},
        flat{rows[0], width}, gates{rows[0], branches};
    const Dims &down = call.shape(2), &up = call.shape(3), &to_gates = call.shape(4);
    call.check(down.size() == 2 && down[0] == width && up == Dims{down[1], width} && to_gates == Dims{width, branches},
               "down_weight ", to_string(down), ", up_weight ", to_string(up), " and inject_weight ",
               to_string(to_gates), " do not fit ", branches, " branches of ", size);
    call.check(call.has(5) == call.has(6), "prev_block_output and prev_post_gate must both be there or not");
    const float divisor = call.float_attribute("gate_div", 1);
    call.check(divisor != 0, "gate_div is 0");
    const auto step = [&](const Value& x) { return f.widened(f.rounded(x)); };
    const auto product = [&](const Value& x, std::size_t weight) { return step(f.apply("MatMul", {x, f(weight)})); };
    const auto sigmoid = [&](const Value& x) { return step(f.apply("Sigmoid", {x})); };
    const auto times = [&](const Value& x, const char* attribute) {
        return step(f.apply("Mul", {x, Value::scalar(call.float_attribute(attribute, 1))}));
    };
    Value streams = f.shaped(f(0), rows);
    if (call.has(5)) {
        const Value parts[] = {streams, f.shaped(f(6), {rows[0], branches, 1}), f.shaped(f(5), {rows[0], 1, size})};
        streams = step(f.elementwise(parts, rows, "y0 = x0 + x1 * x2;"));
    }
    const Value normed = step(f.apply("Mul", {f.rms(streams), f.shaped(f(1), {branches, size})})),
                line = f.shaped(normed, flat), z = times(product(line, 2), "silu_alpha"),
                hidden = step(f.apply("Mul", {z, sigmoid(z)})), gate = sigmoid(product(hidden, 3));
    const Value sum = f.apply("ReduceSum", {f.apply("Mul", {normed, f.shaped(gate, rows)}),
                                            Value::ints(std::array{std::int64_t{1}})}, {{"keepdims", std::int64_t{0}}});
    const Value inject = step(f.apply("Div", {product(line, 4), Value::scalar(divisor)}));
    Dims outer = call.shape(0);
    outer[outer.size() - 1] = size;
    call.output(0, f.rounded(f.shaped(times(sum, "reduction_scale"), outer)));
    outer[outer.size() - 1] = branches;
    call.output(1, f.rounded(f.shaped(times(sigmoid(inject), "gate_mul"), outer)));
    if (call.wants(2))
        call.output(2, f.rounded(f.shaped(streams, call.shape(0))));
}

void linear_attention_gate(Call& call)
{
    const InFloats f(call);
    const Dims shape = call.shape(0);
    const Value parts[] = {f(0), f(1), f(2)};
    call.output(0, f.rounded(f.elementwise(parts, shape,
                                           "T v = x0 + x1; T a = v < 0 ? -v : v; T m = v > 0 ? v : 0;"
                                           "y0 = x2 * (m + log1p(exp(-a)));")));
    call.check(!call.wants(1) || call.has(3), "beta needs input b");
    if (call.has(3))
        call.output(1, f.rounded(f.apply("Sigmoid", {f(3)})));
}

void gated_add(Call& call)
{
    call.check(!call.has(3), "gate_weight is not supported");
    const Compose op(call);
    Dims rows = call.shape(0);
    call.check(!rows.empty(), "X has no axes");
    rows[rows.size() - 1] = 1;
    call.check(call.shape(1) == call.shape(0) && call.shape(2) == rows, "X ", to_string(call.shape(0)), ", Y ",
               to_string(call.shape(1)), " and gate ", to_string(call.shape(2)), " do not fit");
    call.output(0, op("Add", {call.input(0), op("Mul", {call.input(1), call.input(2)})}));
}

void scaled_silu(Call& call)
{
    const InFloats f(call);
    const Value scale = call.has(1) ? f(1) : Value::scalar(call.float_attribute("alpha", 1));
    call.check(scale.numel() == 1, "scale has ", scale.numel(), " elements");
    const Value z = f.rounded(f.apply("Mul", {f(0), f.shaped(scale, {})}));
    const Value s = f.rounded(f.apply("Sigmoid", {f.widened(z)}));
    call.output(0, f.rounded(f.apply("Mul", {f.widened(z), f.widened(s)})));
}

void swiglu(Call& call)
{
    const InFloats f(call);
    Value gate = f(0), up;
    if (call.has(1)) {
        call.check(call.shape(1) == call.shape(0), "gate ", to_string(call.shape(0)), " and up ",
                   to_string(call.shape(1)), " do not fit");
        up = f(1);
    } else {
        call.check(!call.shape(0).empty() && call.shape(0).back() % 2 == 0, "gate ", to_string(call.shape(0)),
                   " has no two halves");
        const auto halves = run_operator(call, "Split", {gate},
                                         {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}}, 2);
        gate = halves[0];
        up = halves[1];
    }
    const float limit = call.float_attribute("limit", 0);
    const std::array<Scalar, 3> numbers{call.float_attribute("activation_alpha", 1),
                                        call.float_attribute("activation_beta", 0),
                                        limit > 0 ? limit : std::numeric_limits<float>::infinity()};
    // In two steps where the first is to be rounded, too.
    const std::string gated = "T g = x0 > w2 ? w2 : x0; g = g / (1 + exp(-w0 * g));",
                      times = "T l = x1 > w2 ? w2 : x1 < -w2 ? -w2 : x1; y0 = g * (l + w1);";
    std::string rest = gated + times;
    if (call.integer_attribute("round_activation", 0) != 0) {
        gate = f.widened(f.rounded(f.elementwise(std::span(&gate, 1), gate.shape(), gated + "y0 = g + 0 * w1;",
                                                 numbers)));
        rest = "T g = x0 + 0 * w0;" + times;
    }
    const Value parts[] = {gate, up};
    call.output(0, f.rounded(f.elementwise(parts, gate.shape(), rest, numbers)));
}

// One product, whose columns are the router's logits and both halves of what SwiGLU gates.
void router_gate_up(Call& call)
{
    const Compose op(call);
    const std::string activation = call.string_attribute("activation", "swiglu");
    call.check(activation == "swiglu", "activation is '", activation, "', expected swiglu");
    const std::int64_t router = call.attribute<std::int64_t>("router_size");
    const Dims& w = call.shape(1);
    call.check(w.size() == 2 && router > 0 && router < w[1] && (w[1] - router) % 2 == 0, "W has shape ", to_string(w),
               ", expected [K, ", router, " + 2 * inter]");
    const Value y = op("MatMul", {call.input(0), call.input(1)});
    const auto parts = run_operator(call, "Split", {y, Value::ints(std::array{router, w[1] - router})},
                                    {{"axis", std::int64_t{-1}}}, 2);
    call.output(0, parts[0]);
    call.output(1, op("com.microsoft.SwiGLU", {parts[1]},
                      op.attributes({"limit", "activation_alpha", "activation_beta"})));
}

void engram_gate(Call& call)
{
    const InFloats f(call);
    const Dims shape = call.shape(0);
    call.check(shape.size() == 4 && call.shape(1) == shape && call.shape(2).size() == 3, "key ", to_string(shape),
               ", query ", to_string(call.shape(1)), " and value ", to_string(call.shape(2)), " do not fit");
    const Dims table{shape[2], shape[3]}, row{shape[0], shape[1], shape[2], 1},
        shared{shape[0], shape[1], 1, shape[3]};
    const Value parts[] = {f.rms(f(0)), f.shaped(f(3), table), f.rms(f(1)), f.shaped(f(4), table)};
    const std::array<Scalar, 1> scale{1 / std::sqrt(static_cast<double>(shape[3]))};
    const Value product = f.elementwise(parts, shape, "y0 = x0 * x1 * x2 * x3 * w0;", scale);
    const Value dot[] = {f.apply("ReduceSum", {product, Value::ints(std::array{std::int64_t{-1}})})};
    const Value gate = f.elementwise(dot, row, "T a = x0 < 0 ? -x0 : x0; T r = sqrt(a > (T)1e-6 ? a : (T)1e-6);"
                                               "T v = x0 > 0 ? r : x0 < 0 ? -r : 0; y0 = 1 / (1 + exp(-v));");
    const Value both[] = {gate, f.shaped(f(2), shared)};
    const Value y = f.elementwise(both, shape, "y0 = x0 * x1;");
    call.output(0, f.rounded(y));
    call.check(!call.wants(1) || call.has(5), "gated_value_normed needs conv_norm_scale");
    if (call.wants(1))
        call.output(1, f.rounded(f.apply("Mul", {f.rms(y), f.shaped(f(5), table)})));
}

const OperatorRow contrib_gate_rows[] = {
    {"GatedRMSNorm", 1, gated_rms_norm, nullptr, microsoft},
    {"BranchwiseRMSNorm", 1, branchwise_rms_norm, nullptr, microsoft},
    {"HyperConnectionPreMix", 1, hyper_connection_pre_mix, nullptr, microsoft},
    {"HyperConnectionPostMix", 1, hyper_connection_post_mix, nullptr, microsoft},
    {"LinearAttentionGate", 1, linear_attention_gate, nullptr, microsoft},
    {"GatedAdd", 1, gated_add, nullptr, microsoft},
    {"ScaledSiLU", 1, scaled_silu, nullptr, microsoft},
    {"SwiGLU", 1, swiglu, nullptr, microsoft},
    {"EngramGate", 1, engram_gate, nullptr, microsoft},
    {"RouterGateUpProj", 1, router_gate_up, nullptr, microsoft},
    {"HyperConnectionLowRankMix", 1, hyper_connection_low_rank_mix, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_gate_operators() { return contrib_gate_rows; }

}  // namespace clprim::onnx
