// Divisions that round, remainders and powers with a given base or exponent.
#include <ATen/ScalarOps.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/remainder_meta.h>
#include <torch/library.h>

#include <ops/number.hpp>
#include <ops/pointwise.hpp>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;

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
    check_fits(exponent, op.common_dtype());
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

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("div.out_mode", &div_mode_out);
    m.impl("remainder.Tensor_out", &remainder_out);
    m.impl("fmod.Tensor_out", &fmod_out);
    m.impl("floor_divide", &floor_quotient);
    m.impl("floor_divide.out", &floor_quotient_out);
    m.impl("floor_divide_.Tensor", &floor_quotient_);
    m.impl("remainder.Scalar_Tensor", &remainder_scalar_tensor);
    m.impl("pow.Tensor_Scalar_out", &pow_tensor_scalar_out);
    m.impl("pow.Scalar_out", &pow_scalar_out);
}

}  // namespace torch_ocl
