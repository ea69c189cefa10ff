// Matrix products. Strides, transpositions and broadcast addends go to the kernels as they are; matmul, linear, einsum,
// tensordot, mv, ... are PyTorch's own compositions of these.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/relu.h>
#include <clprim/gemm.hpp>
#include <clprim/integer_matmul.hpp>
#include <torch/library.h>

#include <ops/activation_name.hpp>
#include <ops/number.hpp>
#include <ops/outputs.hpp>
#include <ops/pointwise.hpp>
#include <runtime/prepared_constants.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

void check_dtype(const at::Tensor& a, const at::Tensor& b, const char* name)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected m1 and m2 to have the same dtype, but got: ",
                a.scalar_type(), " != ", b.scalar_type());
    const at::ScalarType type = a.scalar_type();
    const bool known = type != at::kBool && (at::isIntegralType(type, false) || at::isFloatingType(type) ||
                                             type == at::kComplexFloat || type == at::kComplexDouble);
    TORCH_CHECK_NOT_IMPLEMENTED(known, "\"", name, "\" not implemented for '", type, "'");
}

// What torch.set_float32_matmul_precision and the flags of torch.backends ask for: the former sets those of both
// backends, and a program that sets one of them alone is believed as well.
clprim::Float32Precision float32_precision()
{
    const auto asked = [](at::Float32Backend backend) {
        return at::globalContext().float32Precision(backend, at::Float32Op::MATMUL);
    };
    const at::Float32Precision mkldnn = asked(at::Float32Backend::MKLDNN);
    if (mkldnn == at::Float32Precision::BF16)
        return clprim::Float32Precision::medium;
    return mkldnn == at::Float32Precision::TF32 || asked(at::Float32Backend::CUDA) == at::Float32Precision::TF32
               ? clprim::Float32Precision::high
               : clprim::Float32Precision::highest;
}

struct ProductOptions {
    at::Tensor addend;
    at::Scalar alpha = 1, beta = 0;
    clprim::Activation activation = clprim::Activation::none;
    clprim::Prepared* prepared_b = nullptr;
};

// out = activation(alpha * a b + beta * addend), all with two dimensions or three.
void product(const char* name, const at::Tensor& a_lazy, const at::Tensor& b_lazy, const at::Tensor& out,
             const ProductOptions& options = {})
{
    const auto& [addend_lazy, alpha, beta, activation, prepared_b] = options;
    const bool nothing = out.numel() == 0 || (a_lazy.size(-1) == 0 && !addend_lazy.defined());
    if (!nothing || a_lazy.scalar_type() != b_lazy.scalar_type())   // the CPU has zeros of dtypes without products, too
        check_dtype(a_lazy, b_lazy, name);
    if (nothing) {
        out.zero_();
        return;
    }
    check_fits(alpha, a_lazy.scalar_type());
    check_fits(beta, a_lazy.scalar_type());
    const auto resolved = [](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.resolve_conj().resolve_neg() : tensor;
    };
    const at::Tensor a = resolved(a_lazy), b = resolved(b_lazy), addend = resolved(addend_lazy);
    clprim::GemmProblem problem = clprim::gemm_problem(view(a), view(b), view(out),
                                                       addend.defined() ? view(addend) : clprim::Tensor());
    problem.alpha = to_scalar(alpha);
    problem.beta = to_scalar(beta);
    problem.activation = activation;
    problem.prepared_b = prepared_b;
    if (problem.dtype == clprim::DataType::float32)
        problem.precision = float32_precision();
    clprim::gemm(current_queue(out), problem, view(a), view(b), view(out),
                 addend.defined() ? view(addend) : clprim::Tensor());
}

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out)
{
    StructuredOut<at::meta::structured_mm> op({out});
    op.meta(self, mat2);
    product("addmm_impl_ocl", self, mat2, op.output());
    op.finish();
    return out;
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out)
{
    StructuredOut<at::meta::structured_bmm> op({out});
    op.meta(self, mat2);
    product("bmm", self, mat2, op.output());
    op.finish();
    return out;
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out)
{
    StructuredOut<at::meta::structured_addmm> op({out}, InPlace::allowed);
    op.meta(self, mat1, mat2, beta, alpha);
    product("addmm_impl_ocl", mat1, mat2, op.output(),
            {*at::expand_size(self, op.output().sizes(), "addmm"), alpha, beta});
    op.finish();
    return out;
}

// PyTorch's own forms without `out` call these through the dispatcher, so that profilers would see two operators of one
// name and count the FLOPs of both.
at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2)
{
    at::Tensor out;
    return mm_out(self, mat2, out);
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2)
{
    at::Tensor out;
    return bmm_out(self, mat2, out);
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                 const at::Scalar& alpha)
{
    at::Tensor out;
    return addmm_out(self, mat1, mat2, beta, alpha, out);
}

at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu, at::Tensor& out)
{
    StructuredOut<at::meta::structured__addmm_activation> op({out});
    op.meta(self, mat1, mat2, beta, alpha, use_gelu);
    const bool fused = at::isFloatingType(mat1.scalar_type());
    const auto activation = use_gelu ? clprim::Activation::gelu : clprim::Activation::relu;
    product("addmm_impl_ocl", mat1, mat2, op.output(),
            {*at::expand_size(self, op.output().sizes(), "addmm"), alpha, beta,
             fused ? activation : clprim::Activation::none});
    if (!fused) {   // integers have the one, and refuse the other
        at::Tensor result = op.output();
        use_gelu ? at::gelu_(result) : at::relu_(result);
    }
    op.finish();
    return out;
}

// activation(alpha * a b + beta * addend) in one launch, for compiled code. What is derived from constant b is kept.
at::Tensor fused_addmm(const std::optional<at::Tensor>& addend, const at::Tensor& a, const at::Tensor& b,
                       const at::Scalar& beta, const at::Scalar& alpha, c10::string_view activation, bool constant_b)
{
    const c10::OptionalDeviceGuard guard(a.device());
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "fused_addmm: expected matrices a [m, k] and ",
                "b [k, n], got ", a.sizes(), " and ", b.sizes());
    const at::Tensor out = empty({a.size(0), b.size(1)}, a.scalar_type(), a.device());
    const at::Tensor added = addend ? *at::expand_size(*addend, out.sizes(), "fused_addmm") : at::Tensor();
    product("fused_addmm", a, b, out,
            {added, alpha, addend ? beta : at::Scalar(0), activation_named(activation, "fused_addmm"),
             constant_b ? prepared_of(b) : nullptr});
    return out;
}

at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out)
{
    if (out.defined() && shares_memory(out, {batch1, batch2}))   // the meta function copies self into `out` itself
        return out.copy_(at::baddbmm(self, batch1, batch2, beta, alpha));
    StructuredOut<at::meta::structured_baddbmm> op({out}, InPlace::allowed);
    op.meta(self, batch1, batch2, beta, alpha);
    product("baddbmm", batch1, batch2, op.output(),
            {*at::expand_size(self, op.output().sizes(), "baddbmm"), alpha, beta});
    op.finish();
    return out;
}

at::Tensor baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                   const at::Scalar& alpha)
{
    at::Tensor out;
    return baddbmm_out(self, batch1, batch2, beta, alpha, out);
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out)
{
    StructuredOut<at::meta::structured_addmv> op({out}, InPlace::allowed);
    op.meta(self, mat, vec, beta, alpha);
    const at::Tensor& result = op.output();
    product("addmv_impl_ocl", mat, vec.unsqueeze(1), result.unsqueeze(1),
            {at::expand_size(self, result.sizes(), "addmv")->unsqueeze(1), alpha, beta});
    op.finish();
    return out;
}

at::Tensor dot_of(const at::Tensor& self, const at::Tensor& other, const char* name)
{
    TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ",
                other.dim(), "D tensors");
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
                self.scalar_type(), " and ", other.scalar_type());
    TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(),
                "] and src [", other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ",
                other.numel(), " elements respectively");
    const c10::DeviceGuard guard(self.device());
    if (self._is_zerotensor() || other._is_zerotensor())   // tangents that are not there, which have no memory
        return at::_efficientzerotensor({}, self.options());
    at::Tensor result = empty({}, self.scalar_type(), self.device());
    product(name, self.unsqueeze(0), other.unsqueeze(1), result.view({1, 1}));
    return result;
}

at::Tensor dot(const at::Tensor& self, const at::Tensor& other) { return dot_of(self, other, "dot"); }

at::Tensor vdot(const at::Tensor& self, const at::Tensor& other)
{
    return dot_of(self.is_complex() ? self.conj() : self, other, "vdot");
}

// The sum over a batch is a product whose k runs over batch and k.
at::Tensor sum_of_products(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                           const at::Scalar& beta, const at::Scalar& alpha)
{
    TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
    TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
    TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
                batch1.size(0), " and ", batch2.size(0));
    TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
                batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
    const int64_t all_k = batch1.size(0) * batch1.size(2);
    return at::addmm(self, batch1.transpose(0, 1).reshape({batch1.size(1), all_k}),
                     batch2.reshape({all_k, batch2.size(2)}), beta, alpha);
}

at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out)
{
    const at::Tensor result = sum_of_products(self, batch1, batch2, beta, alpha);
    TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.dtype(),
                ", but got ", out.dtype(), " instead");
    return assign_output(out, result);
}

at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                    const at::Scalar& alpha)
{
    return addbmm_out(self, batch1, batch2, beta, alpha, self);
}

// int8 matrices with an int32 product.
at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out)
{
    TORCH_CHECK(self.dim() == 2, "Expected self to be of dimension 2 but got ", self.dim());
    TORCH_CHECK(mat2.dim() == 2, "Expected mat2 to be of dimension 2 but got ", mat2.dim());
    TORCH_CHECK(self.size(1) == mat2.size(0), "self.size(1) needs to match mat2.size(0) but got ", self.size(1),
                " and ", mat2.size(0));
    TORCH_CHECK(self.scalar_type() == at::kChar, "Expected self dtype to be of type int8 but got ", self.scalar_type());
    TORCH_CHECK(mat2.scalar_type() == at::kChar, "Expected mat2 dtype to be of type int8 but got ", mat2.scalar_type());
    TORCH_CHECK(out.scalar_type() == at::kInt, "Expected result dtype to be of type kInt but got ", out.scalar_type());
    check_output_device(out, self.device());
    const c10::OptionalDeviceGuard guard(self.device());
    at::native::resize_output(out, {self.size(0), mat2.size(1)});
    if (out.numel() != 0)
        clprim::integer_matmul(current_queue(self), view(self), view(mat2), view(out));
    return out;
}

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2)
{
    const c10::OptionalDeviceGuard guard(self.device());
    at::Tensor out = at::empty({0}, self.options().dtype(at::kInt));
    return int_mm_out(self, mat2, out);
}

TORCH_LIBRARY_FRAGMENT(torch_ocl, m)
{
    m.def("fused_addmm(Tensor? addend, Tensor a, Tensor b, Scalar beta, Scalar alpha, str activation, "
          "bool constant_b=False) -> Tensor",
          {at::Tag::flexible_layout});
}

TORCH_LIBRARY_IMPL(torch_ocl, PrivateUse1, m) { m.impl("fused_addmm", fused_addmm); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("mm", mm);
    m.impl("mm.out", mm_out);
    m.impl("bmm", bmm);
    m.impl("bmm.out", bmm_out);
    m.impl("addmm", addmm);
    m.impl("addmm.out", addmm_out);
    m.impl("_addmm_activation.out", addmm_activation_out);
    m.impl("baddbmm", baddbmm);
    m.impl("baddbmm.out", baddbmm_out);
    m.impl("addmv.out", addmv_out);
    m.impl("dot", dot);
    m.impl("vdot", vdot);
    m.impl("addbmm", sum_of_products);
    m.impl("addbmm.out", addbmm_out);
    m.impl("addbmm_", addbmm_);
    m.impl("_int_mm", int_mm);
    m.impl("_int_mm.out", int_mm_out);
}

}  // namespace
}  // namespace torch_ocl
