// Activation functions and their gradients.
#include <ops/number.hpp>
#include <ops/pointwise.hpp>

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardshrink_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/logit_backward_meta.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/softshrink_meta.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_meta.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorIterator;

// A structured gradient: x0 is the gradient, x1 the tensor saved by the forward, whatever the iterator's order.
template <class Meta, class... Arguments>
Tensor& gradient(Tensor& out, const clprim::PointwiseRow& row, std::initializer_list<clprim::Scalar> scalars,
                 std::initializer_list<std::reference_wrapper<const Tensor>> inputs, const Arguments&... arguments)
{
    StructuredOut<Meta> op({out});
    op.meta(arguments...);
    launch(op, row, scalars, inputs);
    op.finish();
    return out;
}

#define CLPRIM_PLAIN(X) X(silu) X(mish) X(hardsigmoid)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, Tensor& out)                                                                  \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op>(out, CLPRIM_ROW(#op), {}, self);                        \
    }
CLPRIM_PLAIN(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

#define CLPRIM_PLAIN_GRADIENTS(X) X(silu) X(hardsigmoid) X(sigmoid) X(tanh)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_backward_out(const Tensor& dy, const Tensor& saved, Tensor& out)                                      \
    {                                                                                                                  \
        return gradient<at::meta::structured_##op##_backward>(out, CLPRIM_ROW(#op "_backward"), {}, {dy, saved}, dy,   \
                                                              saved);                                                  \
    }
CLPRIM_PLAIN_GRADIENTS(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

void check_approximation(c10::string_view name)
{
    TORCH_CHECK(name == "none" || name == "tanh", "approximate argument must be either none or tanh.");
}

Tensor& gelu_out(const Tensor& self, c10::string_view approximate, Tensor& out)
{
    check_approximation(approximate);
    const auto& row = approximate == "tanh" ? CLPRIM_ROW("gelu_tanh") : CLPRIM_ROW("gelu");
    return structured_pointwise<at::meta::structured_gelu>(out, row, {}, self, approximate);
}
Tensor& gelu_backward_out(const Tensor& dy, const Tensor& self, c10::string_view approximate, Tensor& out)
{
    check_approximation(approximate);
    const auto& row = approximate == "tanh" ? CLPRIM_ROW("gelu_tanh_backward") : CLPRIM_ROW("gelu_backward");
    return gradient<at::meta::structured_gelu_backward>(out, row, {}, {dy, self}, dy, self, approximate);
}

Tensor& threshold_out(const Tensor& self, const Scalar& threshold, const Scalar& value, Tensor& out)
{
    check_fits(threshold, self.scalar_type());
    check_fits(value, self.scalar_type());
    return gradient<at::meta::structured_threshold>(
        out, CLPRIM_ROW("threshold"), {to_scalar(threshold), to_scalar(value)}, {self}, self, threshold, value);
}
Tensor& threshold_backward_out(const Tensor& dy, const Tensor& self, const Scalar& threshold, Tensor& out)
{
    return gradient<at::meta::structured_threshold_backward>(out, CLPRIM_ROW("threshold_backward"),
                                                             {to_scalar(threshold)}, {dy, self}, dy, self, threshold);
}

Tensor& elu_out(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, Tensor& out)
{
    return structured_pointwise<at::meta::structured_elu>(out, CLPRIM_ROW("elu"),
                                                          {to_scalar(alpha), to_scalar(scale), to_scalar(input_scale)},
                                                          self, alpha, scale, input_scale);
}
Tensor& elu_backward_out(const Tensor& dy, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                         bool is_result, const Tensor& saved, Tensor& out)
{
    const auto& row = is_result ? CLPRIM_ROW("elu_backward_result") : CLPRIM_ROW("elu_backward");
    return gradient<at::meta::structured_elu_backward>(out, row,
                                                       {to_scalar(alpha), to_scalar(scale), to_scalar(input_scale)},
                                                       {dy, saved}, dy, alpha, scale, input_scale, is_result, saved);
}

Tensor& leaky_relu_out(const Tensor& self, const Scalar& slope, Tensor& out)
{
    return structured_pointwise<at::meta::structured_leaky_relu>(out, CLPRIM_ROW("leaky_relu"), {to_scalar(slope)},
                                                                 self, slope);
}
Tensor& leaky_relu_backward_out(const Tensor& dy, const Tensor& saved, const Scalar& slope, bool is_result, Tensor& out)
{
    return gradient<at::meta::structured_leaky_relu_backward>(
        out, CLPRIM_ROW("leaky_relu_backward"), {to_scalar(slope)}, {dy, saved}, dy, saved, slope, is_result);
}

Tensor& softplus_out(const Tensor& self, const Scalar& beta, const Scalar& threshold, Tensor& out)
{
    return structured_pointwise<at::meta::structured_softplus>(
        out, CLPRIM_ROW("softplus"), {to_scalar(beta), to_scalar(threshold)}, self, beta, threshold);
}
Tensor& softplus_backward_out(const Tensor& dy, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                              Tensor& out)
{
    return gradient<at::meta::structured_softplus_backward>(out, CLPRIM_ROW("softplus_backward"),
                                                            {to_scalar(beta), to_scalar(threshold)}, {dy, self}, dy,
                                                            self, beta, threshold);
}

#define CLPRIM_SHRINKS(X) X(hardshrink) X(softshrink)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, const Scalar& lambda, Tensor& out)                                            \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op>(out, CLPRIM_ROW(#op), {to_scalar(lambda)}, self,        \
                                                               lambda);                                                \
    }                                                                                                                  \
    Tensor& op##_backward_out(const Tensor& dy, const Tensor& self, const Scalar& lambda, Tensor& out)                 \
    {                                                                                                                  \
        return gradient<at::meta::structured_##op##_backward>(out, CLPRIM_ROW("shrink_backward"), {to_scalar(lambda)}, \
                                                              {dy, self}, dy, self, lambda);                           \
    }
CLPRIM_SHRINKS(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

// Not structured: the iterator is built here.
Tensor& unary(const Tensor& self, Tensor& out, const clprim::PointwiseRow& row,
              std::initializer_list<clprim::Scalar> scalars = {})
{
    auto iter = TensorIterator::unary_op(out, self);
    launch(iter, row, scalars);
    return out;
}
Tensor& binary(const Tensor& a, const Tensor& b, Tensor& out, const clprim::PointwiseRow& row,
               std::initializer_list<clprim::Scalar> scalars = {})
{
    auto iter = TensorIterator::binary_op(out, a, b);
    launch(iter, row, scalars);
    return out;
}
Tensor new_binary(const Tensor& a, const Tensor& b, const clprim::PointwiseRow& row,
                  std::initializer_list<clprim::Scalar> scalars = {})
{
    Tensor out;
    auto iter = TensorIterator::binary_op(out, a, b);
    launch(iter, row, scalars);
    return iter.output();
}

// PyTorch would make these two of other operators wherever gradients are recorded.
Tensor silu_backward(const Tensor& dy, const Tensor& self) { return new_binary(dy, self, CLPRIM_ROW("silu_backward")); }
Tensor mish_backward(const Tensor& dy, const Tensor& self) { return new_binary(dy, self, CLPRIM_ROW("mish_backward")); }

Tensor relu(const Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
    Tensor out = at::empty_like(self);
    return unary(self, out, CLPRIM_ROW("relu"));
}
Tensor& relu_(Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
    return unary(self, self, CLPRIM_ROW("relu"));
}

Tensor& hardtanh_out(const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
    if (c10::isIntegralType(self.scalar_type(), false)) {
        const int64_t a = low.toLong(), b = high.toLong();
        TORCH_CHECK(self.scalar_type() != at::kByte || (a >= 0 && b >= 0),
                    "cannot do hardtanh on an unsigned type with negative limits");
        return at::clamp_out(out, self, Scalar(a), Scalar(b));
    }
    return at::clamp_out(out, self, low, high);
}
Tensor hardtanh(const Tensor& self, const Scalar& low, const Scalar& high)
{
    Tensor out = at::empty({0}, self.options());
    return hardtanh_out(self, low, high, out);
}
Tensor& hardtanh_(Tensor& self, const Scalar& low, const Scalar& high) { return hardtanh_out(self, low, high, self); }
Tensor& hardtanh_backward_out(const Tensor& dy, const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out)
{
    return binary(dy, self, out, CLPRIM_ROW("hardtanh_backward"), {to_scalar(low), to_scalar(high)});
}
Tensor hardtanh_backward(const Tensor& dy, const Tensor& self, const Scalar& low, const Scalar& high)
{
    return new_binary(dy, self, CLPRIM_ROW("hardtanh_backward"), {to_scalar(low), to_scalar(high)});
}

Tensor& hardswish_out(const Tensor& self, Tensor& out) { return unary(self, out, CLPRIM_ROW("hardswish")); }
Tensor hardswish(const Tensor& self)
{
    Tensor out = at::empty_like(self);
    return unary(self, out, CLPRIM_ROW("hardswish"));
}
Tensor& hardswish_(Tensor& self) { return unary(self, self, CLPRIM_ROW("hardswish")); }
Tensor hardswish_backward(const Tensor& dy, const Tensor& self)
{
    return new_binary(dy, self, CLPRIM_ROW("hardswish_backward"));
}

// The buffer that PyTorch's CPU kernel keeps for the gradient stays empty, as on CUDA.
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const Tensor& self, Tensor& out, Tensor& buffer)
{
    if (at::get_overlap_status(self, out) == at::MemOverlapStatus::Partial)   // which the CPU does not refuse
        return log_sigmoid_forward_out(self.clone(), out, buffer);
    unary(self, out, CLPRIM_ROW("log_sigmoid"));
    return {out, buffer};
}
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self)
{
    Tensor out = at::empty_like(self), buffer = at::empty({0}, self.options());
    unary(self, out, CLPRIM_ROW("log_sigmoid"));
    return {out, buffer};
}
Tensor& log_sigmoid_backward_out(const Tensor& dy, const Tensor& self, const Tensor&, Tensor& out)
{
    return binary(dy, self, out, CLPRIM_ROW("log_sigmoid_backward"));
}
Tensor log_sigmoid_backward(const Tensor& dy, const Tensor& self, const Tensor&)
{
    return new_binary(dy, self, CLPRIM_ROW("log_sigmoid_backward"));
}

Tensor& logit_into(const Tensor& self, std::optional<double> eps, Tensor& out)
{
    auto iter = TensorIterator::unary_float_op(out, self);
    if (eps && *eps >= 0)
        launch(iter, CLPRIM_ROW("logit_eps"), {*eps});
    else
        launch(iter, CLPRIM_ROW("logit"));
    return out;
}
Tensor& logit_out(const Tensor& self, std::optional<double> eps, Tensor& out) { return logit_into(self, eps, out); }
Tensor logit(const Tensor& self, std::optional<double> eps)
{
    const bool whole = c10::isIntegralType(self.scalar_type(), true);
    Tensor out =
        at::empty_like(self, whole ? self.options().dtype(c10::get_default_dtype_as_scalartype()) : self.options());
    return logit_into(self, eps, out);
}
Tensor& logit_(Tensor& self, std::optional<double> eps) { return logit_into(self, eps, self); }
Tensor& logit_backward_out(const Tensor& dy, const Tensor& self, std::optional<double> eps, Tensor& out)
{
    return gradient<at::meta::structured_logit_backward>(out, CLPRIM_ROW("logit_backward"), {eps.value_or(-1.0)},
                                                         {dy, self}, dy, self, eps);
}

Tensor prelu_kernel(const Tensor& self, const Tensor& weight)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"prelu\" not implemented for '", self.scalar_type(), "'");
    return new_binary(self, weight, CLPRIM_ROW("prelu"));
}
std::tuple<Tensor, Tensor> prelu_kernel_backward(const Tensor& dy, const Tensor& self, const Tensor& weight)
{
    Tensor self_gradient = at::empty({0}, self.options()), weight_gradient = at::empty({0}, weight.options());
    auto iter = at::TensorIteratorConfig()
                    .add_output(self_gradient)
                    .add_output(weight_gradient)
                    .add_const_input(self)
                    .add_const_input(weight)
                    .add_const_input(dy)
                    .build();
    launch(iter, CLPRIM_ROW("prelu_backward"));
    return {self_gradient, weight_gradient};
}

// The two halves of a tensor along a dimension.
std::pair<Tensor, Tensor> halves(const Tensor& tensor, int64_t dim)
{
    const int64_t half = tensor.size(dim) / 2;
    return {tensor.narrow(dim, 0, half), tensor.narrow(dim, half, half)};
}

// The meta function checks and shapes; until PyTorch 2.13 its operands are borrowed from halves that it frees.
Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out)
{
    StructuredOut<at::meta::structured_glu> op({out});
    op.meta(self, dim);
    const auto [value, gate] = halves(self, c10::maybe_wrap_dim(dim, self.dim()));
    auto iter = at::TensorIterator::borrowing_binary_op(op.output(), value, gate);
    launch(iter, CLPRIM_ROW("glu"));
    op.finish();
    return out;
}

Tensor& glu_backward_out(const Tensor& dy, const Tensor& self, int64_t dim, Tensor& out)
{
    TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
    dim = c10::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
                self.size(dim));
    at::native::resize_output(out, self.sizes());
    auto [value, gate] = halves(self, dim);
    auto [value_gradient, gate_gradient] = halves(out, dim);
    auto iter = at::TensorIteratorConfig()
                    .add_output(value_gradient)
                    .add_output(gate_gradient)
                    .add_const_input(value)
                    .add_const_input(gate)
                    .add_const_input(dy)
                    .build();
    launch(iter, CLPRIM_ROW("glu_backward"));
    return out;
}
Tensor glu_backward(const Tensor& dy, const Tensor& self, int64_t dim)
{
    Tensor out = at::empty_like(self);
    return glu_backward_out(dy, self, dim, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
#define CLPRIM_REGISTER(op) m.impl(#op ".out", &op##_out);
    CLPRIM_PLAIN(CLPRIM_REGISTER)
    CLPRIM_SHRINKS(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
#define CLPRIM_REGISTER(op) m.impl(#op "_backward.grad_input", &op##_backward_out);
    CLPRIM_PLAIN_GRADIENTS(CLPRIM_REGISTER)
    CLPRIM_SHRINKS(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
    m.impl("gelu.out", &gelu_out);
    m.impl("gelu_backward.grad_input", &gelu_backward_out);
    m.impl("threshold.out", &threshold_out);
    m.impl("threshold_backward.grad_input", &threshold_backward_out);
    m.impl("elu.out", &elu_out);
    m.impl("elu_backward.grad_input", &elu_backward_out);
    m.impl("leaky_relu.out", &leaky_relu_out);
    m.impl("leaky_relu_backward.grad_input", &leaky_relu_backward_out);
    m.impl("softplus.out", &softplus_out);
    m.impl("softplus_backward.grad_input", &softplus_backward_out);
    m.impl("silu_backward", &silu_backward);
    m.impl("mish_backward", &mish_backward);
    m.impl("relu", &relu);
    m.impl("relu_", &relu_);
    m.impl("hardtanh", &hardtanh);
    m.impl("hardtanh_", &hardtanh_);
    m.impl("hardtanh.out", &hardtanh_out);
    m.impl("hardtanh_backward", &hardtanh_backward);
    m.impl("hardtanh_backward.grad_input", &hardtanh_backward_out);
    m.impl("hardswish", &hardswish);
    m.impl("hardswish_", &hardswish_);
    m.impl("hardswish.out", &hardswish_out);
    m.impl("hardswish_backward", &hardswish_backward);
    m.impl("log_sigmoid_forward", &log_sigmoid_forward);
    m.impl("log_sigmoid_forward.output", &log_sigmoid_forward_out);
    m.impl("log_sigmoid_backward", &log_sigmoid_backward);
    m.impl("log_sigmoid_backward.grad_input", &log_sigmoid_backward_out);
    m.impl("logit", &logit);
    m.impl("logit_", &logit_);
    m.impl("logit.out", &logit_out);
    m.impl("logit_backward.grad_input", &logit_backward_out);
    m.impl("_prelu_kernel", &prelu_kernel);
    m.impl("_prelu_kernel_backward", &prelu_kernel_backward);
    m.impl("glu.out", &glu_out);
    m.impl("glu_backward", &glu_backward);
    m.impl("glu_backward.grad_input", &glu_backward_out);
}

}  // namespace torch_ocl
