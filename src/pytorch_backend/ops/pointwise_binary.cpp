// Elementwise operators of two or three tensors: arithmetic, comparisons, logic, shifts. What divides is in
// pointwise_division.cpp, what selects in pointwise_selection.cpp.
#include <ATen/ScalarOps.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/gcd_meta.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/heaviside_meta.h>
#include <ATen/ops/hypot_meta.h>
#include <ATen/ops/lcm_meta.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/logaddexp2_meta.h>
#include <ATen/ops/logaddexp_meta.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/nextafter_meta.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>
#include <torch/library.h>

#include <ops/number.hpp>
#include <ops/pointwise.hpp>
#include <runtime/forms.hpp>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;

// Structured operators of two tensors: operator, its meta class, overload to register. The row has the operator's name.
#define CLPRIM_BINARY(X)                                                                                               \
    X(mul, mul_Tensor, "mul.out")                                                                                      \
    X(div, div_Tensor, "div.out")                                                                                      \
    X(pow, pow_Tensor_Tensor, "pow.Tensor_Tensor_out")                                                                 \
    X(maximum, maximum, "maximum.out")                                                                                 \
    X(minimum, minimum, "minimum.out")                                                                                 \
    X(fmax, fmax, "fmax.out")                                                                                          \
    X(fmin, fmin, "fmin.out")                                                                                          \
    X(atan2, atan2, "atan2.out")                                                                                       \
    X(hypot, hypot, "hypot.out")                                                                                       \
    X(copysign, copysign_Tensor, "copysign.out")                                                                       \
    X(xlogy, xlogy_Tensor, "xlogy.OutTensor")                                                                          \
    X(special_xlog1py, special_xlog1py, "special_xlog1py.out")                                                         \
    X(logaddexp, logaddexp, "logaddexp.out")                                                                           \
    X(logaddexp2, logaddexp2, "logaddexp2.out")                                                                        \
    X(heaviside, heaviside, "heaviside.out")                                                                           \
    X(gcd, gcd, "gcd.out")                                                                                             \
    X(lcm, lcm, "lcm.out")                                                                                             \
    X(bitwise_and, bitwise_and_Tensor, "bitwise_and.Tensor_out")                                                       \
    X(bitwise_or, bitwise_or_Tensor, "bitwise_or.Tensor_out")                                                          \
    X(bitwise_xor, bitwise_xor_Tensor, "bitwise_xor.Tensor_out")                                                       \
    X(bitwise_left_shift, bitwise_left_shift_Tensor, "bitwise_left_shift.Tensor_out")                                  \
    X(bitwise_right_shift, bitwise_right_shift_Tensor, "bitwise_right_shift.Tensor_out")                               \
    X(eq, eq_Tensor, "eq.Tensor_out")                                                                                  \
    X(ne, ne_Tensor, "ne.Tensor_out")                                                                                  \
    X(lt, lt_Tensor, "lt.Tensor_out")                                                                                  \
    X(le, le_Tensor, "le.Tensor_out")                                                                                  \
    X(gt, gt_Tensor, "gt.Tensor_out")                                                                                  \
    X(ge, ge_Tensor, "ge.Tensor_out")
#define CLPRIM_DEFINE(op, Meta, overload)                                                                              \
    Tensor& op##_out(const Tensor& self, const Tensor& other, Tensor& out)                                             \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##Meta>(out, CLPRIM_ROW(#op), {}, self, other);               \
    }
CLPRIM_BINARY(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

// Comparisons with a number; the meta function makes it an operand of the iterator.
#define CLPRIM_COMPARISONS(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_scalar_out(const Tensor& self, const Scalar& other, Tensor& out)                                      \
    {                                                                                                                  \
        return structured_pointwise<at::meta::structured_##op##_Scalar>(out, CLPRIM_ROW(#op), {}, self, other);        \
    }
CLPRIM_COMPARISONS(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

Tensor& nextafter_out(const Tensor& self, const Tensor& other, Tensor& out)
{
    using Meta = at::meta::structured_nextafter;
    const at::ScalarType common = at::result_type(self, other);
    if (common == at::kHalf)
        return structured_pointwise<Meta>(out, CLPRIM_ROW("nextafter_narrow"), {0x1p-10, 0x1p-24, 65504.0}, self,
                                          other);
    if (common == at::kBFloat16)
        return structured_pointwise<Meta>(out, CLPRIM_ROW("nextafter_narrow"), {0x1p-7, 0x1p-133, 0x1.fep127}, self,
                                          other);
    return structured_pointwise<Meta>(out, CLPRIM_ROW("nextafter"), {}, self, other);
}

// PyTorch's meta functions check alpha by the dtype of `out` on devices that convert while they compute, on the CPU by
// that of the operands.
Scalar checked_alpha(const Scalar& alpha, const Tensor& self, const Tensor& other)
{
    at::native::alpha_check(at::result_type(self, other), alpha);
    check_fits(alpha, self, other);
    return alpha.isBoolean() ? Scalar(alpha.to<int64_t>()) : alpha;
}

Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out)
{
    const Scalar factor = checked_alpha(alpha, self, other);
    return structured_pointwise<at::meta::structured_add_Tensor>(out, CLPRIM_ROW("add"), {to_scalar(factor)}, self,
                                                                 other, factor);
}

Tensor& sub_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out)
{
    at::native::sub_check(self, other);
    const Scalar factor = checked_alpha(alpha, self, other);
    return structured_pointwise<at::meta::structured_sub_Tensor>(out, CLPRIM_ROW("sub"), {to_scalar(factor)}, self,
                                                                 other, factor);
}

Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return at::sub(other, self, alpha); }

// Three operands.
Tensor& addcmul_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out)
{
    check_fits(value, a, b);
    return structured_pointwise<at::meta::structured_addcmul>(out, CLPRIM_ROW("addcmul"), {to_scalar(value)}, self, a,
                                                              b, value);
}
Tensor& addcdiv_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out)
{
    return structured_pointwise<at::meta::structured_addcdiv>(out, CLPRIM_ROW("addcdiv"), {to_scalar(value)}, self, a,
                                                              b, value);
}
Tensor& lerp_tensor_out(const Tensor& self, const Tensor& end, const Tensor& weight, Tensor& out)
{
    return structured_pointwise<at::meta::structured_lerp_Tensor>(out, CLPRIM_ROW("lerp"), {}, self, end, weight);
}
Tensor& lerp_scalar_out(const Tensor& self, const Tensor& end, const Scalar& weight, Tensor& out)
{
    return structured_pointwise<at::meta::structured_lerp_Scalar>(out, CLPRIM_ROW("lerp_scalar"), {to_scalar(weight)},
                                                                  self, end, weight);
}

// Logic: any dtypes, compared with zero in the promoted one.
Tensor& logical_out(const Tensor& self, const Tensor& other, Tensor& out, const clprim::PointwiseRow& row)
{
    auto iter = at::TensorIterator::comparison_op(out, self, other);
    launch(iter, row);
    return out;
}
#define CLPRIM_LOGICAL(X) X(and) X(or) X(xor)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& logical_##op##_out(const Tensor& self, const Tensor& other, Tensor& out)                                   \
    {                                                                                                                  \
        return logical_out(self, other, out, CLPRIM_ROW("logical_" #op));                                              \
    }
CLPRIM_LOGICAL(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

// The old names of the shifts.
#define CLPRIM_SHIFTS(X) X(lshift, "bitwise_left_shift") X(rshift, "bitwise_right_shift")
#define CLPRIM_DEFINE(op, row)                                                                                         \
    Tensor& i##op##_tensor(Tensor& self, const Tensor& other)                                                          \
    {                                                                                                                  \
        auto iter = at::TensorIterator::binary_op(self, self, other);                                                  \
        launch(iter, CLPRIM_ROW(row));                                                                                 \
        return self;                                                                                                   \
    }                                                                                                                  \
    Tensor op##_tensor(const Tensor& self, const Tensor& other)                                                        \
    {                                                                                                                  \
        Tensor out;                                                                                                    \
        auto iter = at::TensorIterator::binary_op(out, self, other);                                                   \
        launch(iter, CLPRIM_ROW(row));                                                                                 \
        return iter.output();                                                                                          \
    }                                                                                                                  \
    Tensor op##_scalar(const Tensor& self, const Scalar& other)                                                        \
    {                                                                                                                  \
        return op##_tensor(self, at::native::wrapped_scalar_tensor(other));                                            \
    }                                                                                                                  \
    Tensor& i##op##_scalar(Tensor& self, const Scalar& other)                                                          \
    {                                                                                                                  \
        return i##op##_tensor(self, at::native::wrapped_scalar_tensor(other));                                         \
    }
CLPRIM_SHIFTS(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
#define CLPRIM_REGISTER(op, Meta, overload) register_forms<&op##_out>(m, overload);
    CLPRIM_BINARY(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
#define CLPRIM_REGISTER(op) register_forms<&op##_scalar_out>(m, #op ".Scalar_out");
    CLPRIM_COMPARISONS(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
#define CLPRIM_REGISTER(op) m.impl("logical_" #op ".out", &logical_##op##_out);
    CLPRIM_LOGICAL(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
#define CLPRIM_REGISTER(op, row)                                                                                       \
    m.impl("__" #op "__.Tensor", &op##_tensor);                                                                        \
    m.impl("__" #op "__.Scalar", &op##_scalar);                                                                        \
    m.impl("__i" #op "__.Tensor", &i##op##_tensor);                                                                    \
    m.impl("__i" #op "__.Scalar", &i##op##_scalar);
    CLPRIM_SHIFTS(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
    register_forms<&add_out>(m, "add.out");
    register_forms<&sub_out>(m, "sub.out");
    m.impl("rsub.Tensor", &rsub);
    register_forms<&addcmul_out>(m, "addcmul.out");
    register_forms<&addcdiv_out>(m, "addcdiv.out");
    register_forms<&lerp_tensor_out>(m, "lerp.Tensor_out");
    register_forms<&lerp_scalar_out>(m, "lerp.Scalar_out");
    m.impl("nextafter.out", &nextafter_out);
}

}  // namespace torch_ocl
