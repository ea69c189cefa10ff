// Elementwise operators of one tensor.
#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/acos_meta.h>
#include <ATen/ops/acosh_meta.h>
#include <ATen/ops/asin_meta.h>
#include <ATen/ops/asinh_meta.h>
#include <ATen/ops/atan_meta.h>
#include <ATen/ops/atanh_meta.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cosh_meta.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erfc_meta.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/frac_meta.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/signbit_meta.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sinc_meta.h>
#include <ATen/ops/sinh_meta.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/trunc_meta.h>
#include <torch/library.h>

#include <ops/pointwise.hpp>
#include <runtime/forms.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

// Structured operators whose row has their own name and takes no numbers.
#define CLPRIM_UNARY(X)                                                                                                \
    X(acos)                                                                                                            \
    X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(bitwise_not) X(cos) X(cosh) X(erf) X(erfc) X(exp) X(exp2) X(expm1)    \
        X(frac) X(log) X(log10) X(log1p) X(log2) X(neg) X(reciprocal) X(rsqrt) X(sgn) X(sigmoid) X(sign) X(sin)        \
            X(sinc) X(sinh) X(sqrt) X(tan) X(tanh)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, Tensor& out)                                                                  \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op>(out, CLPRIM_ROW(#op), {}, self);                        \
    }
CLPRIM_UNARY(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

// Rounding: integers are whole already.
#define CLPRIM_ROUNDING(X) X(ceil) X(floor) X(round) X(trunc)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, Tensor& out)                                                                  \
    {                                                                                                                  \
        const bool whole = c10::isIntegralType(self.scalar_type(), false);                                             \
        return structured_pointwise<at::meta::structured_##op>(out, whole ? CLPRIM_ROW("copy") : CLPRIM_ROW(#op), {},  \
                                                               self);                                                  \
    }
CLPRIM_ROUNDING(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

Tensor& round_decimals_out(const Tensor& self, int64_t decimals, Tensor& out)
{
    StructuredOut<at::meta::structured_round_decimals> op({out});
    op.meta(self, decimals);
    if (decimals == 0)
        launch(op, CLPRIM_ROW("round"));
    else
        launch(op, decimals > 0 ? CLPRIM_ROW("round_decimals") : CLPRIM_ROW("round_tens"),
               {std::pow(10.0, static_cast<double>(std::abs(decimals)))});
    op.finish();
    return out;
}

Tensor& signbit_out(const Tensor& self, Tensor& out)
{
    const bool whole = c10::isIntegralType(self.scalar_type(), true);
    return structured_pointwise<at::meta::structured_signbit>(
        out, whole ? CLPRIM_ROW("signbit_integer") : CLPRIM_ROW("signbit"), {}, self);
}

template <class Meta>
Tensor& infinite(const Tensor& self, Tensor& out, const clprim::PointwiseRow& row)
{
    StructuredOut<Meta> op({out});
    op.meta(self);
    if (c10::isIntegralType(self.scalar_type(), true))
        out.fill_(false);
    else
        launch(op, row);
    op.finish();
    return out;
}
Tensor& isposinf_out(const Tensor& self, Tensor& out)
{
    return infinite<at::meta::structured_isposinf>(self, out, CLPRIM_ROW("isposinf"));
}
Tensor& isneginf_out(const Tensor& self, Tensor& out)
{
    return infinite<at::meta::structured_isneginf>(self, out, CLPRIM_ROW("isneginf"));
}

Tensor isnan(const Tensor& self)
{
    Tensor out = at::empty_like(self, self.options().dtype(at::kBool));
    if (c10::isIntegralType(self.scalar_type(), true))
        return out.fill_(false);
    auto iter = at::TensorIteratorConfig().check_all_same_dtype(false).add_output(out).add_const_input(self).build();
    launch_as(self.scalar_type(), iter, CLPRIM_ROW("isnan"));
    return out;
}

Tensor& logical_not_out(const Tensor& self, Tensor& out)
{
    auto iter = at::TensorIteratorConfig()
                    .check_all_same_dtype(false)
                    .add_output(out)
                    .add_const_input(self)
                    .build();
    launch_as(self.scalar_type(), iter, CLPRIM_ROW("logical_not"));
    return out;
}

// Operators that give the real type of a complex tensor; `row` computes them for floating-point and complex dtypes.
Tensor& complex_to_real(const Tensor& self, Tensor& out, const clprim::PointwiseRow& row)
{
    auto iter = at::TensorIteratorConfig()
                    .set_check_mem_overlap(true)
                    .check_all_same_dtype(false)
                    .add_output(out)
                    .add_const_input(self)
                    .build();
    launch_as(self.scalar_type(), iter, row);
    return out;
}

Tensor& abs_out(const Tensor& self, Tensor& out)
{
    const at::ScalarType type = self.scalar_type();
    if (c10::isComplexType(type)) {
        const at::ScalarType real = c10::toRealValueType(type);
        TORCH_CHECK(at::canCast(real, out.scalar_type()), "result type ", real,
                    " can't be cast to the desired output type ", out.scalar_type());
        return complex_to_real(self, out, CLPRIM_ROW("abs"));
    }
    auto iter = at::TensorIterator::unary_op(out, self);
    launch(iter, c10::isIntegralType(type, true) ? CLPRIM_ROW("abs_integer") : CLPRIM_ROW("abs"));
    return out;
}

Tensor& angle_out(const Tensor& self, Tensor& out)
{
    const at::ScalarType type = self.scalar_type();
    if (c10::isComplexType(type)) {
        const at::ScalarType real = c10::toRealValueType(type);
        TORCH_CHECK(at::canCast(real, out.scalar_type()), "result type ", real,
                    " can't be cast to the desired output type ", out.scalar_type());
        return complex_to_real(self, out, CLPRIM_ROW("angle"));
    }
    auto iter = at::TensorIterator::unary_float_op(out, self);
    launch(iter, CLPRIM_ROW("angle"));
    return out;
}

Tensor angle(const Tensor& self)
{
    const at::ScalarType type = self.scalar_type();
    const at::ScalarType result = c10::isComplexType(type)          ? c10::toRealValueType(type)
                                  : c10::isIntegralType(type, true) ? c10::get_default_dtype_as_scalartype()
                                                                    : type;
    Tensor out = at::empty({0}, self.options().dtype(result));
    return angle_out(self, out);
}

Tensor& conj_physical_out(const Tensor& self, Tensor& out)
{
    auto iter = at::TensorIterator::unary_op(out, self);
    launch(iter, CLPRIM_ROW("conj_physical"));
    return out;
}

Tensor& nan_to_num_out(const Tensor& self, std::optional<double> nan, std::optional<double> positive,
                       std::optional<double> negative, Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
                " should be same as input: ", self.scalar_type());
    auto iter = at::TensorIterator::unary_op(out, self);
    if (c10::isIntegralType(self.scalar_type(), true)) {
        launch(iter, CLPRIM_ROW("copy"));
        return out;
    }
    double largest = std::numeric_limits<float>::max();
    switch (c10::toRealValueType(self.scalar_type())) {
    case at::kDouble: largest = std::numeric_limits<double>::max(); break;
    case at::kHalf: largest = static_cast<float>(std::numeric_limits<at::Half>::max()); break;
    case at::kBFloat16: largest = static_cast<float>(std::numeric_limits<at::BFloat16>::max()); break;
    default: break;
    }
    launch(iter, CLPRIM_ROW("nan_to_num"),
           {nan.value_or(0.0), positive.value_or(largest), negative.value_or(-largest)});
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
#define CLPRIM_REGISTER(op) register_forms<&op##_out>(m, #op ".out");
    CLPRIM_UNARY(CLPRIM_REGISTER)
    CLPRIM_ROUNDING(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
    m.impl("round.decimals_out", &round_decimals_out);
    m.impl("signbit.out", &signbit_out);
    m.impl("isposinf.out", &isposinf_out);
    m.impl("isneginf.out", &isneginf_out);
    m.impl("isnan", &isnan);
    m.impl("logical_not.out", &logical_not_out);
    m.impl("abs.out", &abs_out);
    m.impl("angle.out", &angle_out);
    m.impl("angle", &angle);
    m.impl("conj_physical.out", &conj_physical_out);
    m.impl("nan_to_num.out", &nan_to_num_out);
}

}  // namespace torch_ocl
