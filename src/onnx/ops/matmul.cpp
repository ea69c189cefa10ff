// Products of matrices and determinants.
#include <algorithm>

#include <clprim/context.hpp>
#include <clprim/conv.hpp>
#include <clprim/copy.hpp>
#include <clprim/determinant.hpp>

#include "onnx/ops/families.hpp"
#include "onnx/ops/fused_activation.hpp"
#include "onnx/ops/products.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

// A convolution of one tap, rows for its pixels.
bool as_convolution(const Call& call, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                    Activation activation)
{
    const Device& device = call.queue().device();
    const std::int64_t rows = x.size(0), k = w.size(0), n = w.size(1);
    if (device.kind != DeviceKind::cpu || device.amx || !call.prepared(1) || x.dtype != DataType::float32 || rows < 8 ||
        k < 16 || n < 16 || x.stride(1) != 1)
        return false;
    const Tensor pixels(x.memory, x.offset, x.dtype, {1, k, rows}, {rows * x.stride(0), 1, x.stride(0)});
    const Tensor results(y.memory, y.offset, y.dtype, {1, n, rows}, {rows * n, 1, n});
    const Tensor taps(w.memory, w.offset, w.dtype, {n, k, 1}, {w.stride(1), w.stride(0), 1});
    ConvOptions options;
    options.prepared = call.prepared(1);
    options.implementation = "cpu_channels";
    options.activation = activation;
    try {
        conv_forward(call.queue(), pixels, taps, bias, results, options);
    } catch (const NotSupported&) {              // such as too little local memory
        return false;
    }
    return true;
}

namespace {

void check_same_type(const Call& call, std::size_t i)
{
    call.check(call.type(i) == call.type(0), "input ", i, " is ", name_of(call.type(i)), ", expected ",
               name_of(call.type(0)));
}

// A vector becomes a row (in front) or a column (behind).
Tensor as_matrix(Tensor t, bool row)
{
    if (t.dim() != 1)
        return t;
    t.strides = row ? Dims{0, t.stride(0)} : Dims{t.stride(0), 0};
    t.shape = row ? Dims{1, t.size(0)} : Dims{t.size(0), 1};
    return t;
}

// numpy.matmul: batch axes broadcast; a vector's added axis disappears from the result.
void run_matmul(Call& call, const Tensor& left, const Tensor& right, Scalar alpha)
{
    call.check(left.dim() > 0 && right.dim() > 0, "a scalar has no product of matrices");
    const Tensor a = as_matrix(left, true), b = as_matrix(right, false);
    const std::size_t m = a.dim() - 2, n = b.dim() - 2;
    call.check(a.size(m + 1) == b.size(n), "shapes ", to_string(left.shape), " and ", to_string(right.shape),
               " do not fit: ", a.size(m + 1), " columns and ", b.size(n), " rows");
    Dims shape = broadcast(Dims(std::span(a.shape.begin(), m)), Dims(std::span(b.shape.begin(), n)));
    Dims reduced = shape;
    shape.push_back(a.size(m));
    shape.push_back(b.size(n + 1));
    if (left.dim() > 1)
        reduced.push_back(a.size(m));
    if (right.dim() > 1)
        reduced.push_back(b.size(n + 1));
    const Tensor y = call.allocate(shape, a.dtype);
    batched_product(call.queue(), a, b, y, alpha);
    call.output(0, Value(y.reshape(reduced)));
}

void matmul(Call& call)
{
    check_same_type(call, 1);
    const Tensor x = call.tensor(0), w = call.tensor(1);
    if (call.prepared(1) && w.dim() == 2 && x.dim() >= 2 && x.is_contiguous() && x.shape.back() == w.size(0)) {
        Dims shape = x.shape;
        shape[x.dim() - 1] = w.size(1);
        const Tensor y = call.allocate(shape, x.dtype);
        const std::int64_t rows = y.numel() / std::max<std::int64_t>(w.size(1), 1);
        if (y.numel() && as_convolution(call, x.reshape({rows, w.size(0)}), w, {}, y.reshape({rows, w.size(1)}))) {
            call.output(0, Value(y));
            return;
        }
    }
    run_matmul(call, x, w, 1);
}

// The gradient of one operand of MatMul (gradient_rules.cpp): inputs g, a, b; g b^T for operand 0, a^T g for operand 1,
// summed over the batch axes along which the operand was broadcast.
void matmul_gradient(Call& call)
{
    check_same_type(call, 1);
    check_same_type(call, 2);
    const bool first = call.integer_attribute("operand", 0) == 0;
    call.check(call.shape(1).size() > 0 && call.shape(2).size() > 0, "a scalar has no product of matrices");
    const Tensor a = as_matrix(call.tensor(1), true), b = as_matrix(call.tensor(2), false);
    const std::size_t m = a.dim() - 2, n = b.dim() - 2;
    const Dims batch = broadcast(Dims(std::span(a.shape.begin(), m)), Dims(std::span(b.shape.begin(), n)));
    Dims product = batch;
    product.push_back(a.size(m));
    product.push_back(b.size(n + 1));
    call.check(call.input(0).numel() == product.product(), "the gradient has shape ", to_string(call.shape(0)),
               ", expected ", to_string(product));
    const Tensor g = call.contiguous(0).reshape(product), &operand = first ? a : b;
    Dims shape = batch;
    shape.push_back(operand.size(operand.dim() - 2));
    shape.push_back(operand.size(operand.dim() - 1));
    const Tensor whole = call.allocate(shape, a.dtype);
    if (first)
        batched_product(call.queue(), g, b.transpose(n, n + 1), whole);
    else
        batched_product(call.queue(), a.transpose(m, m + 1), g, whole);
    call.output(0, Value(summed_to(call, whole, operand.shape).reshape(call.shape(first ? 1 : 2))));
}

void gemm_operator(Call& call)
{
    check_same_type(call, 1);
    const auto operand = [&](std::size_t i, const char* attribute) {
        const Tensor t = call.tensor(i);
        call.check(t.dim() == 2, "input ", i, " has shape ", to_string(t.shape), ", expected a matrix");
        return call.integer_attribute(attribute, 0) ? t.transpose(0, 1) : t;
    };
    const Tensor a = operand(0, "transA"), b = operand(1, "transB");
    call.check(a.size(1) == b.size(0), "shapes ", to_string(a.shape), " and ", to_string(b.shape), " do not fit");
    const Tensor y = call.allocate({a.size(0), b.size(1)}, a.dtype);
    Tensor bias;
    const float beta = call.float_attribute("beta", 1);
    if (call.has(2) && beta != 0) {
        check_same_type(call, 2);
        bias = call.tensor(2);
        const bool broadcasts = call.opset() >= 7 || call.integer_attribute("broadcast", 0) != 0;
        call.check(broadcasts ? broadcast(bias.shape, y.shape) == y.shape : bias.shape == y.shape, "C of shape ",
                   to_string(bias.shape), " does not broadcast to ", to_string(y.shape));
        bias = bias.expand(y.shape);
    }
    call.output(0, Value(y));
    const bool is_row = bias.defined() && beta == 1 && bias.stride(0) == 0 && bias.stride(1) == 1;
    const Tensor row = is_row ? Tensor(bias.memory, bias.offset, bias.dtype, {y.size(1)}, {1}) : Tensor();
    const Activation activation = fused_activation(call).activation;
    if (call.float_attribute("alpha", 1) == 1 && (is_row || !bias.defined()) &&
        as_convolution(call, a, b, row, y, activation))
        return;
    GemmProblem problem = gemm_problem(a, b, y, bias);
    problem.alpha = call.float_attribute("alpha", 1);
    problem.beta = beta;
    problem.activation = activation;
    problem.prepared_a = call.prepared(0);
    problem.prepared_b = call.prepared(1);
    if (y.numel())
        gemm(call.queue(), problem, a, b, y, bias);
}

// Products with a constant matrix [k, n] and a bias [n], and an activation, which Session's fusions make: x [..., k]
// counts as one matrix.
void linear(Call& call)
{
    check_same_type(call, 1);
    const Tensor x = call.contiguous(0), w = call.tensor(1), bias = call.tensor(2);
    call.check(x.dim() > 0 && x.shape.back() == w.size(0), "shapes ", to_string(x.shape), " and ", to_string(w.shape),
               " do not fit");
    Dims shape = x.shape;
    shape[x.dim() - 1] = w.size(1);
    const Tensor y = call.allocate(shape, x.dtype);
    call.output(0, Value(y));
    if (y.numel() == 0)
        return;
    const std::int64_t rows = x.dim() == 1 ? 1 : y.numel() / w.size(1);
    const Tensor a = x.reshape({rows, w.size(0)}), c = y.reshape({rows, w.size(1)});
    const Activation activation = fused_activation(call).activation;
    if (as_convolution(call, a, w, bias, c, activation))
        return;
    GemmProblem problem = gemm_problem(a, w, c, bias.expand(c.shape));
    problem.activation = activation;
    problem.prepared_b = call.prepared(1);
    gemm(call.queue(), problem, a, w, c, bias.expand(c.shape));
}

void det(Call& call)
{
    const Tensor x = call.contiguous(0);
    call.check(x.dim() >= 2 && x.size(x.dim() - 1) == x.size(x.dim() - 2), "input 0 has shape ", to_string(x.shape),
               ", expected square matrices");
    const Tensor y = call.allocate(Dims(std::span(x.shape.begin(), x.dim() - 2)), x.dtype);
    call.output(0, Value(y));
    determinant(call.queue(), x, y);
}

// com.microsoft: transposed operands (also of the batch axes) and a factor.
void fused_matmul(Call& call)
{
    check_same_type(call, 1);
    const auto operand = [&](std::size_t i, const char* transposed, const char* batch) {
        Tensor t = call.tensor(i);
        const std::size_t dims = t.dim();
        if (call.integer_attribute(batch, 0) && dims > 2) { // the batch axes' last moves in front of the matrix
            Dims shape = t.shape, strides = t.strides;
            for (std::size_t k = 1; k + 1 < dims; ++k) {
                t.shape[k - 1] = shape[k];
                t.strides[k - 1] = strides[k];
            }
            t.shape[dims - 2] = shape[0];
            t.strides[dims - 2] = strides[0];
        }
        return call.integer_attribute(transposed, 0) && dims > 1 ? t.transpose(dims - 2, dims - 1) : t;
    };
    run_matmul(call, operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB"),
               call.float_attribute("alpha", 1));
}

const OperatorRow matmul_rows[] = {
    {"MatMul", 1, matmul},
    {"Gemm", 1, gemm_operator},
    {"Det", 11, det},
    {"Linear", 1, linear, nullptr, "clprim"},
    {"Gemm", 1, gemm_operator, nullptr, "clprim"},
    {"MatMulGradient", 1, matmul_gradient, nullptr, "clprim"},
    {"FusedMatMul", 1, fused_matmul, nullptr, "com.microsoft"},
    {"TransposeMatMul", 1, fused_matmul, nullptr, "com.microsoft"},
    {"SparseToDenseMatMul", 1, fused_matmul, nullptr, "com.microsoft"},   // sparse tensors are read as dense ones
};

}  // namespace

std::span<const OperatorRow> matmul_operators() { return matmul_rows; }

}  // namespace clprim::onnx
