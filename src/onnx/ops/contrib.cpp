// Operators of com.microsoft that ONNX Runtime's and Hugging Face's optimisers leave in transformer models.
#include <clprim/context.hpp>
#include <clprim/norm.hpp>

#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

Tensor row_parameter(const Call& call, std::size_t i, std::int64_t size, DataType type)
{
    if (!call.has(i))
        return {};
    const Tensor t = call.contiguous(i);
    call.check(t.shape == Dims{size} && t.dtype == type, "input ", i, " is ", name_of(t.dtype), " ", to_string(t.shape),
               ", expected ", name_of(type), " [", size, "]");
    return t;
}

// Layer (or RMS) norm of input + skip + bias; the sum is an output, too. The weight is input 2.
void skip_norm(Call& call, bool rms)
{
    const std::size_t bias = rms ? 3 : 4;              // behind beta, which RMS norm has not
    const Tensor x = call.contiguous(0), skip = call.tensor(1);
    call.check(x.dim() >= 2 && is_floating_point(x.dtype) && skip.dtype == x.dtype &&
                   broadcast(x.shape, skip.shape) == x.shape,
               "skip ", to_string(skip.shape), " does not fit input ", to_string(x.shape));
    const std::int64_t n = x.shape.back();
    std::vector<Tensor> inputs{x, skip};
    if (call.has(bias))
        inputs.push_back(row_parameter(call, bias, n, x.dtype));
    const Tensor sum = call.allocate(x.shape, x.dtype);
    pointwise(call.queue(), inputs, std::span(&sum, 1), {}, inputs.size() > 2 ? "y0 = x0 + x1 + x2;" : "y0 = x0 + x1;");
    LayerNorm problem;
    problem.x = sum;
    problem.y = call.allocate(x.shape, x.dtype);
    problem.weight = row_parameter(call, 2, n, x.dtype);
    if (!rms)
        problem.bias = row_parameter(call, 3, n, x.dtype);
    problem.n = n;
    problem.rms = rms;
    problem.eps = call.float_attribute("epsilon", 1e-12F);
    Dims rows = x.shape;
    rows[x.dim() - 1] = 1;
    const DataType statistics = x.dtype == DataType::float64 ? DataType::float64 : DataType::float32;
    if (!rms)
        problem.mean = call.allocate(rows, statistics);
    problem.rstd = call.allocate(rows, statistics);
    if (x.numel())
        layer_norm(call.queue(), problem);
    call.output(0, Value(problem.y));
    call.output(3, Value(sum));
}

void skip_layer_normalization(Call& call) { skip_norm(call, false); }
void skip_simplified_layer_normalization(Call& call) { skip_norm(call, true); }

// An activation of x, or of x + bias.
void activated(Call& call, std::string_view code, std::span<const Scalar> numbers = {})
{
    std::vector<Tensor> inputs{call.tensor(0)};
    call.check(is_floating_point(inputs[0].dtype), "input 0 is ", name_of(call.type(0)), ", expected floating point");
    if (call.has(1)) {
        call.check(call.type(1) == call.type(0) && broadcast(inputs[0].shape, call.shape(1)) == inputs[0].shape,
                   "bias ", to_string(call.shape(1)), " does not fit input ", to_string(inputs[0].shape));
        inputs.push_back(call.tensor(1));
    }
    const Tensor y = call.allocate_like(inputs[0]);
    call.output(0, Value(y));
    pointwise(call.queue(), inputs, std::span(&y, 1), numbers,
              detail::concat(call.has(1) ? "T v = x0 + x1; " : "T v = x0; ", code));
}

void gelu(Call& call) { activated(call, "y0 = gelu(v);"); }
void fast_gelu(Call& call) { activated(call, "y0 = gelu_tanh(v);"); }
void quick_gelu(Call& call)
{
    activated(call, "y0 = v / (1 + exp(-w0 * v));", std::array{Scalar(call.float_attribute("alpha", 1.702F))});
}

const OperatorRow contrib_rows[] = {
    {"SkipLayerNormalization", 1, skip_layer_normalization, nullptr, microsoft},
    {"SkipSimplifiedLayerNormalization", 1, skip_simplified_layer_normalization, nullptr, microsoft},
    {"Gelu", 1, gelu, nullptr, microsoft},
    {"BiasGelu", 1, gelu, nullptr, microsoft},
    {"FastGelu", 1, fast_gelu, nullptr, microsoft},
    {"QuickGelu", 1, quick_gelu, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_operators() { return contrib_rows; }

}  // namespace clprim::onnx
