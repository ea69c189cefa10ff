// Clamping, selection by a mask, and complex numbers out of two real ones.
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <ops/number.hpp>
#include <ops/pointwise.hpp>

namespace torch_ocl {
namespace {

using at::Scalar;
using at::Tensor;


Tensor& clamp_out(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out)
{
    StructuredOut<at::meta::structured_clamp> op({out});
    op.meta(self, low ? at::OptionalScalarRef(*low) : at::OptionalScalarRef(),
            high ? at::OptionalScalarRef(*high) : at::OptionalScalarRef());
    for (const std::optional<Scalar>& bound : {low, high})
        if (bound)
            check_fits(*bound, op.common_dtype());
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
    check_fits(low, at::result_type(self, low));
    return structured_pointwise<at::meta::structured_clamp_min>(out, CLPRIM_ROW("clamp_min_scalar"), {to_scalar(low)},
                                                                self, low);
}
Tensor& clamp_max_out(const Tensor& self, const Scalar& high, Tensor& out)
{
    check_fits(high, at::result_type(self, high));
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

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("clamp.out", &clamp_out);
    m.impl("clamp_min.out", &clamp_min_out);
    m.impl("clamp_max.out", &clamp_max_out);
    m.impl("clamp.Tensor_out", &clamp_tensor_out);
    m.impl("clamp_min.Tensor_out", &clamp_min_tensor_out);
    m.impl("clamp_max.Tensor_out", &clamp_max_tensor_out);
    m.impl("where.self", &where);
    m.impl("where.self_out", &where_out);
    m.impl("complex.out", &complex_out);
    m.impl("polar.out", &polar_out);
}

}  // namespace torch_ocl
