// Special functions.
#include <ops/pointwise.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/mvlgamma.h>
#include <ATen/ops/digamma_meta.h>
#include <ATen/ops/erfinv_meta.h>
#include <ATen/ops/i0_meta.h>
#include <ATen/ops/igamma_meta.h>
#include <ATen/ops/igammac_meta.h>
#include <ATen/ops/lgamma_meta.h>
#include <ATen/ops/polygamma_meta.h>
#include <ATen/ops/special_airy_ai_meta.h>
#include <ATen/ops/special_bessel_j0_meta.h>
#include <ATen/ops/special_bessel_j1_meta.h>
#include <ATen/ops/special_bessel_y0_meta.h>
#include <ATen/ops/special_bessel_y1_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_entr_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_laguerre_polynomial_l_meta.h>
#include <ATen/ops/special_legendre_polynomial_p_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_modified_bessel_i0_meta.h>
#include <ATen/ops/special_modified_bessel_i1_meta.h>
#include <ATen/ops/special_modified_bessel_k0_meta.h>
#include <ATen/ops/special_modified_bessel_k1_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k0_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k1_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/ops/special_zeta_meta.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;
using Tensors = std::initializer_list<std::reference_wrapper<const Tensor>>;

#define CLPRIM_SPECIAL(X) \
    X(lgamma) X(digamma) X(erfinv) X(i0) X(special_entr) X(special_ndtri) X(special_log_ndtr) \
    X(special_erfcx) X(special_i0e) X(special_i1) X(special_i1e) X(special_modified_bessel_i0) \
    X(special_modified_bessel_i1) X(special_modified_bessel_k0) X(special_modified_bessel_k1) \
    X(special_scaled_modified_bessel_k0) X(special_scaled_modified_bessel_k1) X(special_bessel_j0) \
    X(special_bessel_j1) X(special_bessel_y0) X(special_bessel_y1) X(special_spherical_bessel_j0) X(special_airy_ai)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, Tensor& out)                                                                  \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op>(out, CLPRIM_ROW(#op), {}, self);                        \
    }
CLPRIM_SPECIAL(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

#define CLPRIM_BINARY(X) \
    X(igamma) X(igammac) X(special_zeta) X(special_chebyshev_polynomial_t) \
    X(special_chebyshev_polynomial_u) X(special_chebyshev_polynomial_v) X(special_chebyshev_polynomial_w) \
    X(special_shifted_chebyshev_polynomial_t) X(special_shifted_chebyshev_polynomial_u) \
    X(special_shifted_chebyshev_polynomial_v) X(special_shifted_chebyshev_polynomial_w) \
    X(special_hermite_polynomial_h) X(special_hermite_polynomial_he) X(special_laguerre_polynomial_l) \
    X(special_legendre_polynomial_p)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, const Tensor& other, Tensor& out)                                             \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op>(out, CLPRIM_ROW(#op), {}, self, other);                 \
    }
CLPRIM_BINARY(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

Tensor& polygamma_out(int64_t n, const Tensor& self, Tensor& out)
{
    return structured_pointwise<at::meta::structured_polygamma>(out, CLPRIM_ROW("polygamma"), {n}, n, self);
}

Tensor& mvlgamma_out(const Tensor& self, int64_t p, Tensor& out)
{
    const Tensor result = at::mvlgamma(self, p);
    TORCH_CHECK(at::can_cast(result.scalar_type(), out.scalar_type()), "mvlgamma: result type ", result.scalar_type(),
                " can't be cast to the desired output type ", out.scalar_type());
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
}

std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& self, Tensor& mantissa, Tensor& exponent)
{
    TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
    TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
                " but got ", mantissa.dtype());
    TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
                exponent.dtype());
    auto iter = at::TensorIteratorConfig()
                    .add_output(mantissa)
                    .add_output(exponent)
                    .add_const_input(self)
                    .check_all_same_dtype(false)
                    .set_check_mem_overlap(true)
                    .build();
    launch_as(self.scalar_type(), iter, CLPRIM_ROW("frexp"));
    return {mantissa, exponent};
}

// Derivatives of random numbers by the parameters of their distribution.
Tensor derivative(const clprim::PointwiseRow& row, Tensors inputs)
{
    Tensor out;
    at::TensorIteratorConfig config;
    config.add_output(out);
    for (const Tensor& input : inputs)
        config.add_const_input(input);
    auto iter = config.build();
    launch(iter, row);
    return iter.output();
}

Tensor standard_gamma_grad(const Tensor& self, const Tensor& output)
{
    return derivative(CLPRIM_ROW("_standard_gamma_grad"), {self, output});
}

Tensor dirichlet_grad(const Tensor& x, const Tensor& alpha, const Tensor& total)
{
    return derivative(CLPRIM_ROW("_dirichlet_grad"), {x, alpha, total});
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
#define CLPRIM_REGISTER(op) m.impl(#op ".out", &op##_out);
    CLPRIM_SPECIAL(CLPRIM_REGISTER)
    CLPRIM_BINARY(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
    m.impl("polygamma.out", &polygamma_out);
    m.impl("mvlgamma.out", &mvlgamma_out);
    m.impl("frexp.Tensor_out", &frexp_out);
    m.impl("_standard_gamma_grad", &standard_gamma_grad);
    m.impl("_dirichlet_grad", &dirichlet_grad);
}

}  // namespace torch_ocl
