// Operators that PyTorch composes for no device by itself, made here of operators that the device has.
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensordot.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <ops/number.hpp>
#include <ops/outputs.hpp>
#include <ops/pointwise.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

std::vector<int64_t> all_but(int64_t dim, int64_t dims)
{
    std::vector<int64_t> rest;
    for (int64_t d = 0; d < dims; ++d)
        if (d != dim)
            rest.push_back(d);
    return rest;
}

// ---- norms of slices ----

// Slices along `dim` whose p-norm exceeds maxnorm are scaled to it.
Tensor& renorm_out(const Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm, Tensor& out)
{
    StructuredOut<at::meta::structured_renorm> op({out});
    op.meta(self, p, dim, maxnorm);
    const std::vector<int64_t> rest = all_but(c10::maybe_wrap_dim(dim, self.dim()), self.dim());
    const at::ScalarType real = c10::toRealValueType(self.scalar_type());
    const bool narrow = real == at::kHalf || real == at::kBFloat16;
    const Tensor norm = at::linalg_vector_norm(self, p, rest, true,
                                               narrow ? std::optional<at::ScalarType>(at::kFloat) : std::nullopt);
    const Tensor factor = at::where(norm.gt(maxnorm), maxnorm.toDouble() / (norm + 1e-7), 1.0);
    op.output().copy_(at::mul(self, factor));
    op.finish();
    return out;
}

// w = v g / |v|, where the norm is over all dimensions but one.
Two weight_norm(const Tensor& v, const Tensor& g, int64_t dim)
{
    const c10::OptionalDeviceGuard guard(v.device());
    const Tensor norm = at::norm_except_dim(v, 2, dim);
    return {v * (g / norm), norm};
}

Two weight_norm_backward(const Tensor& grad_w, const Tensor& v, const Tensor& g, const Tensor& norm, int64_t dim)
{
    const int64_t last = v.dim() - 1;
    TORCH_CHECK(dim == 0 || dim == last, "_weight_norm_interface_backward: dim must be 0 or ", last, ", got ", dim);
    const c10::OptionalDeviceGuard guard(v.device());
    const std::vector<int64_t> rest = all_but(dim, v.dim());
    const Tensor along = rest.empty() ? grad_w * v : (grad_w * v).sum(rest, true);   // of the gradient, on v
    return {(g / norm) * (grad_w - v * (along / (norm * norm))), along / norm};
}

// ---- products ----

// Each component is a difference of two products of the others.
Tensor& linalg_cross_out(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out)
{
    StructuredOut<at::meta::structured_linalg_cross> op({out});
    op.meta(self, other, dim);
    const Tensor& result = op.output();
    TORCH_CHECK_NOT_IMPLEMENTED(result.scalar_type() != at::kBool, "\"linalg_cross\" not implemented for 'Bool'");
    const Tensor a = self.expand(result.sizes()), b = other.expand(result.sizes());
    const int64_t axis = c10::maybe_wrap_dim(dim, result.dim());
    for (int64_t k = 0; k < 3; ++k) {
        Tensor component = result.select(axis, k);
        const int64_t next = (k + 1) % 3, last = (k + 2) % 3;
        auto iter = at::TensorIteratorConfig()
                        .add_output(component)
                        .add_owned_const_input(a.select(axis, next))
                        .add_owned_const_input(b.select(axis, last))
                        .add_owned_const_input(a.select(axis, last))
                        .add_owned_const_input(b.select(axis, next))
                        .build();
        launch(iter, CLPRIM_ROW("difference_of_products"));
    }
    op.finish();
    return out;
}

void check_addr(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha)
{
    const at::ScalarType type = c10::promoteTypes(at::result_type(self, a), b.scalar_type());
    for (const auto& [number, name] : {std::pair(beta, "beta"), std::pair(alpha, "alpha")}) {
        TORCH_CHECK(!number.isBoolean() || type == at::kBool, "Boolean ", name, " only supported for Boolean results.");
        TORCH_CHECK(!c10::isIntegralType(type, true) || number.isIntegral(true),
                    "For integral input tensors, argument ", name, " must not be a floating point number.");
        check_fits(number, type);
    }
}

// Numbers as PyTorch's composition takes them: to booleans all that are not zero are true.
at::Scalar addr_number(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& number)
{
    const bool boolean = c10::promoteTypes(at::result_type(self, a), b.scalar_type()) == at::kBool;
    return boolean ? converted(number, at::kBool) : number;
}

// beta self + alpha a b', checked as on the CPU.
Tensor addr(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha)
{
    check_addr(self, a, b, beta, alpha);
    const at::ScalarType type = c10::promoteTypes(at::result_type(self, a), b.scalar_type());
    if (c10::isReducedFloatingType(type))   // rounded once
        return torch_ocl::addr(self.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat), beta, alpha).to(type);
    return at::native::math_addr(self, a, b, addr_number(self, a, b, beta), addr_number(self, a, b, alpha));
}
Tensor& addr_out(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta, const at::Scalar& alpha,
                 Tensor& out)
{
    check_addr(self, a, b, beta, alpha);
    check_output_device(out, self.device());
    return at::native::math_addr_out(self, a, b, addr_number(self, a, b, beta), addr_number(self, a, b, alpha), out);
}

// input [m, ...] and coefficients [n, m]: n sums of m tensors.
Tensor linear_combination(const Tensor& input, const Tensor& coefficients)
{
    TORCH_CHECK(input.dim() >= 1 && coefficients.dim() == 2 && coefficients.size(1) == input.size(0),
                "_compute_linear_combination: coefficients ", coefficients.sizes(), " do not fit input ",
                input.sizes());
    return at::tensordot(coefficients, input, {1}, {0});
}

// Added to what `out` holds, as on the CPU.
Tensor& linear_combination_out(const Tensor& input, const Tensor& coefficients, Tensor& out)
{
    check_output_device(out, input.device());
    return out.add_(linear_combination(input, coefficients));
}

// ---- activations ----

Tensor& add_relu_out(const Tensor& self, const Tensor& other, const at::Scalar& alpha, Tensor& out)
{
    return at::add_out(out, self, other, alpha).relu_();
}

Tensor add_relu(const Tensor& self, const Tensor& other, const at::Scalar& alpha)
{
    return at::add(self, other, alpha).relu_();
}

Tensor& add_relu_(Tensor& self, const Tensor& other, const at::Scalar& alpha)
{
    return self.add_(other, alpha).relu_();
}

Tensor add_relu_scalar(const Tensor& self, const at::Scalar& other, const at::Scalar& alpha)
{
    return at::add(self, other, alpha).relu_();
}

Tensor& add_relu_scalar_(Tensor& self, const at::Scalar& other, const at::Scalar& alpha)
{
    return self.add_(other, alpha).relu_();
}

std::pair<Tensor, Tensor> halves(const Tensor& tensor, int64_t dim)
{
    const int64_t half = tensor.size(dim) / 2;
    return {tensor.narrow(dim, 0, half), tensor.narrow(dim, half, half)};
}

// Tangent of glu(x) = a sigmoid(b), where x holds a and b.
Tensor glu_jvp(const Tensor& glu, const Tensor& x, const Tensor& dx, int64_t dim)
{
    dim = c10::maybe_wrap_dim(dim, x.dim());
    const auto [a, b] = halves(x, dim);
    const auto [da, db] = halves(dx, dim);
    const Tensor s = at::sigmoid(b);
    return da * s + glu * (1 - s) * db;
}

// Tangent of the gradient (g s, g a s (1 - s)), s = sigmoid(b).
Tensor glu_backward_jvp(const Tensor& grad_x, const Tensor& grad_glu, const Tensor& x, const Tensor& dgrad_glu,
                        const Tensor& dx, int64_t dim)
{
    dim = c10::maybe_wrap_dim(dim, x.dim());
    const auto [a, b] = halves(x, dim);
    const auto [da, db] = halves(dx, dim);
    const Tensor s = at::sigmoid(b), slope = s * (1 - s);
    Tensor result = at::empty_like(grad_x);
    auto [first, second] = halves(result, dim);
    first.copy_(dgrad_glu * s + grad_glu * slope * db);
    second.copy_(slope * (dgrad_glu * a + grad_glu * da + grad_glu * a * (1 - 2 * s) * db));
    return result;
}

// ---- statistics ----

// Mean and biased variance of each channel; the running statistics, where there are any, move towards them.
Two batch_norm_update_stats(const Tensor& input, const OptionalTensor& running_mean, const OptionalTensor& running_var,
                            double momentum)
{
    TORCH_CHECK(input.dim() >= 2, "batch_norm_update_stats expected input of 2 dimensions or more, got ",
                input.sizes());
    const c10::OptionalDeviceGuard guard(input.device());
    const bool narrow = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
    const int64_t count = input.numel() / std::max<int64_t>(input.size(1), 1);
    auto [variance, mean] = at::var_mean(narrow ? input.to(at::kFloat) : input, all_but(1, input.dim()), 0);
    if (running_mean && running_mean->defined())
        running_mean->mul_(1 - momentum).add_(mean, momentum);
    if (running_var && running_var->defined())
        running_var->mul_(1 - momentum)
            .add_(variance, momentum * static_cast<double>(count) / static_cast<double>(count - 1));
    return {mean, variance};
}

// Clips the tensor itself to what float16 holds. PyTorch's own function goes through host memory.
Tensor saturate_weight_to_fp16(const Tensor& weight)
{
    TORCH_CHECK(weight.scalar_type() == at::kFloat, "expected scalar type Float but found ", weight.scalar_type());
    Tensor result = weight.contiguous();
    return result.clamp_(-65504, 65504);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_saturate_weight_to_fp16", saturate_weight_to_fp16);
    m.impl("renorm.out", renorm_out);
    m.impl("addr", addr);
    m.impl("addr.out", addr_out);
    m.impl("_weight_norm_interface", weight_norm);
    m.impl("_weight_norm_interface_backward", weight_norm_backward);
    m.impl("linalg_cross.out", linalg_cross_out);
    m.impl("_compute_linear_combination", linear_combination);
    m.impl("_compute_linear_combination.out", linear_combination_out);
    m.impl("_add_relu.Tensor", add_relu);
    m.impl("_add_relu_.Tensor", add_relu_);
    m.impl("_add_relu.out", add_relu_out);
    m.impl("_add_relu.Scalar", add_relu_scalar);
    m.impl("_add_relu_.Scalar", add_relu_scalar_);
    m.impl("glu_jvp", glu_jvp);
    m.impl("glu_backward_jvp", glu_backward_jvp);
    m.impl("batch_norm_update_stats", batch_norm_update_stats);
}

}  // namespace
}  // namespace torch_ocl
