// Elementwise operators of two or three tensors: arithmetic, comparisons, logic, selection.
#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_left_shift_meta.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_right_shift_meta.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/copysign_meta.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/fmax_meta.h>
#include <ATen/ops/fmin_meta.h>
#include <ATen/ops/fmod_meta.h>
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
#include <ATen/ops/pow.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/special_xlog1py_meta.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/xlogy_meta.h>
#include <torch/library.h>

#include <ops/pointwise.hpp>

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

Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out)
{
    return structured_pointwise<at::meta::structured_add_Tensor>(out, CLPRIM_ROW("add"), {to_scalar(alpha)}, self,
                                                                 other, alpha);
}

Tensor& sub_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out)
{
    return structured_pointwise<at::meta::structured_sub_Tensor>(out, CLPRIM_ROW("sub"), {to_scalar(alpha)}, self,
                                                                 other, alpha);
}

Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return at::sub(other, self, alpha); }

// Divisions whose result is whole. Of integers, a divisor that is 0 is an error, as on the CPU: at once where it is a
// number on the host, else reported by the kernel with the next synchronisation.
struct Division {
    const clprim::PointwiseRow &row, &reported;
};
#define CLPRIM_DIVISION(name) Division{CLPRIM_ROW(name), CLPRIM_ROW("integer_" name)}

void divide(at::TensorIteratorBase& iter, const Division& division)
{
    const int divisor = iter.ntensors() - 1;
    if (!c10::isIntegralType(iter.common_dtype(), false))
        return launch(iter, division.row);
    if (!iter.is_cpu_scalar(divisor))
        return launch(iter, division.reported);
    TORCH_CHECK(iter.numel() == 0 || at::Tensor(iter.tensor_base(divisor)).item().toLong() != 0, "ZeroDivisionError");
    launch(iter, division.row);
}

template <class Meta, class... Arguments>
Tensor& structured_division(Tensor& out, const Division& division, const Arguments&... arguments)
{
    StructuredOut<Meta> op({out});
    op.meta(arguments...);
    divide(op, division);
    op.finish();
    return out;
}

Tensor& div_mode_out(const Tensor& self, const Tensor& other, std::optional<c10::string_view> mode, Tensor& out)
{
    using Meta = at::meta::structured_div_Tensor_mode;
    if (!mode)
        return structured_pointwise<Meta>(out, CLPRIM_ROW("div"), {}, self, other, mode);
    return structured_division<Meta>(
        out, *mode == "trunc" ? CLPRIM_DIVISION("div_trunc") : CLPRIM_DIVISION("div_floor"), self, other, mode);
}
Tensor& remainder_out(const Tensor& self, const Tensor& other, Tensor& out)
{
    return structured_division<at::meta::structured_remainder_Tensor>(out, CLPRIM_DIVISION("remainder"), self, other);
}
Tensor& fmod_out(const Tensor& self, const Tensor& other, Tensor& out)
{
    return structured_division<at::meta::structured_fmod_Tensor>(out, CLPRIM_DIVISION("fmod"), self, other);
}

Tensor& floor_quotient_out(const Tensor& self, const Tensor& other, Tensor& out)
{
    auto iter = at::TensorIterator::binary_op(out, self, other);
    divide(iter, CLPRIM_DIVISION("div_floor"));
    return out;
}
Tensor floor_quotient(const Tensor& self, const Tensor& other)
{
    Tensor out;
    auto iter = at::TensorIterator::binary_op(out, self, other);
    divide(iter, CLPRIM_DIVISION("div_floor"));
    return iter.output();
}
Tensor& floor_quotient_(Tensor& self, const Tensor& other) { return floor_quotient_out(self, other, self); }

Tensor remainder_scalar_tensor(const Scalar& self, const Tensor& other)
{
    return at::remainder(at::native::wrapped_scalar_tensor(self), other);
}

// Powers with a given exponent: the common ones need no pow.
Tensor& pow_tensor_scalar_out(const Tensor& self, const Scalar& exponent, Tensor& out)
{
    StructuredOut<at::meta::structured_pow_Tensor_Scalar> op({out});
    op.meta(self, exponent);
    if (exponent.equal(0.0) || exponent.equal(false)) {
        out.fill_(1);
        return out;
    }
    const bool floating = c10::isFloatingType(op.common_dtype());
    if (exponent.equal(1.0) || exponent.equal(true))
        launch(op, CLPRIM_ROW("copy"));
    else if (exponent.equal(2.0))
        launch(op, CLPRIM_ROW("square"));
    else if (exponent.equal(3.0))
        launch(op, CLPRIM_ROW("cube"));
    else if (floating && exponent.equal(0.5))
        launch(op, CLPRIM_ROW("sqrt"));
    else if (floating && exponent.equal(-0.5))
        launch(op, CLPRIM_ROW("rsqrt"));
    else if (floating && exponent.equal(-1.0))
        launch(op, CLPRIM_ROW("reciprocal"));
    else
        launch(op, CLPRIM_ROW("pow_scalar"), {to_scalar(exponent)});
    op.finish();
    return out;
}

Tensor& pow_scalar_out(const Scalar& self, const Tensor& exponent, Tensor& out)
{
    StructuredOut<at::meta::structured_pow_Scalar> op({out});
    op.meta(self, exponent);
    if (self.equal(1.0) || self.equal(true))
        out.fill_(1);
    else
        at::pow_out(out, at::native::wrapped_scalar_tensor(self), exponent);
    return out;
}

// Clamping.
Tensor& clamp_out(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out)
{
    StructuredOut<at::meta::structured_clamp> op({out});
    op.meta(self, low ? at::OptionalScalarRef(*low) : at::OptionalScalarRef(),
            high ? at::OptionalScalarRef(*high) : at::OptionalScalarRef());
    if (low && high)
        launch(op, CLPRIM_ROW("clamp_scalar"), {to_scalar(*low), to_scalar(*high)});
    else if (low)
        launch(op, CLPRIM_ROW("clamp_min_scalar"), {to_scalar(*low)});
    else
        launch(op, CLPRIM_ROW("clamp_max_scalar"), {to_scalar(*high)});
    op.finish();
    return out;
}
Tensor& clamp_min_out(const Tensor& self, const Scalar& low, Tensor& out)
{
    return structured_pointwise<at::meta::structured_clamp_min>(out, CLPRIM_ROW("clamp_min_scalar"), {to_scalar(low)},
                                                                self, low);
}
Tensor& clamp_max_out(const Tensor& self, const Scalar& high, Tensor& out)
{
    return structured_pointwise<at::meta::structured_clamp_max>(out, CLPRIM_ROW("clamp_max_scalar"), {to_scalar(high)},
                                                                self, high);
}
Tensor& clamp_tensor_out(const Tensor& self, const std::optional<Tensor>& low, const std::optional<Tensor>& high,
                         Tensor& out)
{
    StructuredOut<at::meta::structured_clamp_Tensor> op({out});
    op.meta(self, low ? at::OptionalTensorRef(*low) : at::OptionalTensorRef(),
            high ? at::OptionalTensorRef(*high) : at::OptionalTensorRef());
    launch(op, low && high ? CLPRIM_ROW("clamp") : low ? CLPRIM_ROW("maximum") : CLPRIM_ROW("minimum"));
    op.finish();
    return out;
}
Tensor& clamp_min_tensor_out(const Tensor& self, const Tensor& low, Tensor& out)
{
    return structured_pointwise<at::meta::structured_clamp_min_Tensor>(out, CLPRIM_ROW("maximum"), {}, self, low);
}
Tensor& clamp_max_tensor_out(const Tensor& self, const Tensor& high, Tensor& out)
{
    return structured_pointwise<at::meta::structured_clamp_max_Tensor>(out, CLPRIM_ROW("minimum"), {}, self, high);
}

// Three operands.
Tensor& addcmul_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out)
{
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

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out)
{
    const at::ScalarType result = at::result_type(self, other);
    TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
                "where expected condition to be a boolean tensor, but got a tensor with dtype ",
                condition.scalar_type());
    TORCH_CHECK(out.scalar_type() == result, "Expected out type to be ", result, " but got ", out.scalar_type());
    const c10::Device device = out.device();
    auto placed = [&](const Tensor& t) {   // numbers may live on the host
        return t.device() != device && t.dim() == 0 ? t.to(device) : t;
    };
    const Tensor c = placed(condition), a = placed(self), b = placed(other);
    auto iter = at::TensorIteratorConfig()
                    .check_all_same_dtype(false)
                    .add_output(out)
                    .add_const_input(c)
                    .add_const_input(a)
                    .add_const_input(b)
                    .build();
    launch_as(result, iter, CLPRIM_ROW("where"));
    return out;
}
Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other)
{
    c10::Device device = condition.device();
    for (const Tensor* t : {&self, &other})
        if (device.is_cpu())
            device = t->device();
    Tensor out = at::empty({0}, self.options().dtype(at::result_type(self, other)).device(device));
    return where_out(condition, self, other, out);
}

Tensor& pair_to_complex(const Tensor& a, const Tensor& b, Tensor& out, const clprim::PointwiseRow& row,
                        const char* name)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
                " but got scalar type ", b.scalar_type(), " for second argument");
    TORCH_CHECK(a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble || a.scalar_type() == at::kHalf,
                "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(), " and ",
                b.scalar_type());
    TORCH_CHECK(out.scalar_type() == c10::toComplexType(a.scalar_type()), "Expected object of scalar type ",
                c10::toComplexType(a.scalar_type()), " but got scalar type ", out.scalar_type(),
                " for argument 'out' of ", name);
    auto iter = at::TensorIteratorConfig()
                    .add_output(out)
                    .add_const_input(a)
                    .add_const_input(b)
                    .check_all_same_dtype(false)
                    .build();
    launch_as(out.scalar_type(), iter, row);
    return out;
}
Tensor& complex_out(const Tensor& real, const Tensor& imaginary, Tensor& out)
{
    return pair_to_complex(real, imaginary, out, CLPRIM_ROW("complex"), "complex");
}
Tensor& polar_out(const Tensor& absolute, const Tensor& angle, Tensor& out)
{
    return pair_to_complex(absolute, angle, out, CLPRIM_ROW("polar"), "polar");
}

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
#define CLPRIM_REGISTER(op, Meta, overload) m.impl(overload, &op##_out);
    CLPRIM_BINARY(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
#define CLPRIM_REGISTER(op) m.impl(#op ".Scalar_out", &op##_scalar_out);
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
    m.impl("add.out", &add_out);
    m.impl("sub.out", &sub_out);
    m.impl("rsub.Tensor", &rsub);
    m.impl("div.out_mode", &div_mode_out);
    m.impl("remainder.Tensor_out", &remainder_out);
    m.impl("fmod.Tensor_out", &fmod_out);
    m.impl("floor_divide", &floor_quotient);
    m.impl("floor_divide.out", &floor_quotient_out);
    m.impl("floor_divide_.Tensor", &floor_quotient_);
    m.impl("remainder.Scalar_Tensor", &remainder_scalar_tensor);
    m.impl("pow.Tensor_Scalar_out", &pow_tensor_scalar_out);
    m.impl("pow.Scalar_out", &pow_scalar_out);
    m.impl("clamp.out", &clamp_out);
    m.impl("clamp_min.out", &clamp_min_out);
    m.impl("clamp_max.out", &clamp_max_out);
    m.impl("clamp.Tensor_out", &clamp_tensor_out);
    m.impl("clamp_min.Tensor_out", &clamp_min_tensor_out);
    m.impl("clamp_max.Tensor_out", &clamp_max_tensor_out);
    m.impl("addcmul.out", &addcmul_out);
    m.impl("addcdiv.out", &addcdiv_out);
    m.impl("lerp.Tensor_out", &lerp_tensor_out);
    m.impl("lerp.Scalar_out", &lerp_scalar_out);
    m.impl("nextafter.out", &nextafter_out);
    m.impl("where.self", &where);
    m.impl("where.self_out", &where_out);
    m.impl("complex.out", &complex_out);
    m.impl("polar.out", &polar_out);
}

}  // namespace torch_ocl
