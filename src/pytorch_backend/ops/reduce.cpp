// Sums, products, moments and norms.
#include <ops/reduce.hpp>

#include <cmath>

#include <ATen/ops/diagonal.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/hash_tensor_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/sum_meta.h>
#include <torch/library.h>

#include <runtime/errors.hpp>
#include <runtime/float8.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

using at::Scalar;
using at::Tensor;

DimMask reduced_dims(at::OptionalIntArrayRef dims, int64_t ndim)
{
    if (!dims.has_value() || dims->empty())
        return DimMask().set();
    return at::dim_list_to_bitset(*dims, static_cast<std::size_t>(ndim));
}

DimMask reduced_dim(std::optional<int64_t> dim, int64_t ndim)
{
    if (!dim)
        return DimMask().set();
    DimMask mask;
    mask.set(static_cast<std::size_t>(c10::maybe_wrap_dim(*dim, ndim)));
    return mask;
}

c10::DimVector reduced_shape(const Tensor& self, const DimMask& mask, bool keepdim)
{
    c10::DimVector shape;
    for (int64_t d = 0; d < self.dim(); ++d) {
        if (!mask[static_cast<std::size_t>(d)])
            shape.push_back(self.size(d));
        else if (keepdim)
            shape.push_back(1);
    }
    return shape;
}

namespace {

// The output with all dimensions of the input, size 1 where they are reduced.
clprim::Tensor with_reduced_dims(const Tensor& output, const Tensor& self, const DimMask& mask)
{
    clprim::Tensor result = view(output);
    const auto rank = static_cast<std::size_t>(self.dim());
    clprim::Dims shape(rank, 1), strides(rank, 0);
    const bool keepdim = output.dim() == self.dim();
    for (std::size_t d = 0, from = 0; d < rank; ++d) {
        if (!mask[d]) {
            shape[d] = result.shape[from];
            strides[d] = result.strides[from];
        }
        from += keepdim || !mask[d];
    }
    result.shape = shape;
    result.strides = strides;
    return result;
}

}  // namespace

void launch(const Reduction& reduction, Tensors inputs, Tensors outputs)
{
    const Tensor& self = *inputs.begin();
    c10::SmallVector<clprim::Input, 2> from;
    c10::SmallVector<clprim::Tensor, 2> to;
    c10::SmallVector<Tensor, 2> wide;   // numbers of eight bits as float32
    for (const Tensor& input : inputs)
        from.emplace_back(view(is_float8(input) ? wide.emplace_back(float8_to_float(input)) : input));
    for (const Tensor& output : outputs)
        to.push_back(with_reduced_dims(output, self, reduction.mask));
    translate_errors([&] {
        clprim::reduce(current_queue(outputs.begin()->get()), reduction.row,
                       {{from.data(), from.size()},
                        {to.data(), to.size()},
                        {reduction.scalars.begin(), reduction.scalars.size()},
                        data_type(c10::isFloat8Type(reduction.common) ? at::kFloat : reduction.common)});
    });
}

namespace {

// Booleans do not add up: their sum is `any`, their product `all`.
const clprim::ReduceRow& sum_row(const Tensor& out)
{
    return out.scalar_type() == at::kBool ? CLPRIM_REDUCE_ROW("any") : CLPRIM_REDUCE_ROW("sum");
}
const clprim::ReduceRow& product_row(const Tensor& out)
{
    return out.scalar_type() == at::kBool ? CLPRIM_REDUCE_ROW("all") : CLPRIM_REDUCE_ROW("prod");
}

// Complex numbers lose their imaginary part before they are added to real ones, as on the CPU.
Tensor addends(const Tensor& self, at::ScalarType type)
{
    return self.is_complex() && !c10::isComplexType(type) ? self.to(type) : self;
}

Tensor& sum_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                Tensor& out)
{
    StructuredOut<at::meta::structured_sum_dim_IntList> op({out});
    op.meta(self, dim, keepdim, dtype);
    const at::ScalarType type = op.output().scalar_type();
    const Tensor numbers = addends(self, type);
    launch({sum_row(op.output()), reduced_dims(dim, self.dim()), type}, {numbers}, {op.output()});
    op.finish();
    return out;
}

Tensor& mean_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                 Tensor& out)
{
    StructuredOut<at::meta::structured_mean_dim> op({out});
    op.meta(self, dim, keepdim, dtype);
    const at::ScalarType type = op.output().scalar_type();
    TORCH_CHECK(!c10::isIntegralType(type, true), "result type ", self.scalar_type(), " can't be cast to the desired "
                "output type ", type);
    const Tensor numbers = addends(self, type);
    launch({CLPRIM_REDUCE_ROW("mean"), reduced_dims(dim, self.dim()), type}, {numbers}, {op.output()});
    op.finish();
    return out;
}

at::ScalarType summed_type(const Tensor& self, std::optional<at::ScalarType> dtype)
{
    return dtype ? *dtype : c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

Tensor& nansum_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                   Tensor& out)
{
    TORCH_CHECK(!c10::isComplexType(self.scalar_type()), "nansum does not support complex inputs");
    if (c10::isIntegralType(self.scalar_type(), true))
        return at::sum_out(out, self, dim, keepdim, dtype);
    const at::ScalarType type = dtype.value_or(out.scalar_type());
    TORCH_CHECK(out.scalar_type() == type, "Expected out tensor to have dtype ", type, ", but got ", out.scalar_type(),
                " instead");
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::isComplexType(type), "\"nansum\" not implemented for '",
                                c10::toString(type), "'");
    TORCH_CHECK_NOT_IMPLEMENTED(dtype || c10::canCast(self.scalar_type(), type), "nansum: expected an out that a "
                                "result of dtype ", self.scalar_type(), " can be cast to, got ", type);
    if (!c10::isFloatingType(type))     // summed in that dtype, which has no NaN
        return at::sum_out(out, self.masked_fill(self.isnan(), 0).to(type), dim, keepdim, type);
    const DimMask mask = reduced_dims(dim, self.dim());
    at::native::resize_output(out, reduced_shape(self, mask, keepdim));
    launch({CLPRIM_REDUCE_ROW("nansum"), mask, type}, {self}, {out});
    return out;
}
Tensor nansum(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype)
{
    Tensor out = at::empty({0}, self.options().dtype(summed_type(self, dtype)));
    return nansum_out(self, dim, keepdim, dtype, out);
}

Tensor& hash_tensor_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, int64_t mode, Tensor& out)
{
    StructuredOut<at::meta::structured_hash_tensor> op({out});
    op.meta(self, dim, keepdim, mode);
    const DimMask mask = reduced_dims(dim, self.dim());
    if (self.scalar_type() == at::kHalf) {
        const Tensor bits = self.view(at::kUInt16);
        launch({CLPRIM_REDUCE_ROW("hash_float16"), mask, at::kUInt16}, {bits}, {op.output()});
    } else {
        launch({CLPRIM_REDUCE_ROW("hash_tensor"), mask, self.scalar_type()}, {self}, {op.output()});
    }
    op.finish();
    return out;
}

Tensor& prod_out(const Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype, Tensor& out)
{
    StructuredOut<at::meta::structured_prod_dim_int> op({out});
    op.meta(self, dim, keepdim, dtype);
    const at::ScalarType type = op.output().scalar_type();
    const Tensor numbers = addends(self, type);
    launch({product_row(op.output()), reduced_dim(dim, self.dim()), type}, {numbers}, {op.output()});
    op.finish();
    return out;
}
Tensor prod(const Tensor& self, std::optional<at::ScalarType> dtype)
{
    Tensor out = at::empty({}, self.options().dtype(summed_type(self, dtype)));
    const Tensor numbers = addends(self, out.scalar_type());
    launch({product_row(out), DimMask().set(), out.scalar_type()}, {numbers}, {out});
    return out;
}

Tensor trace(const Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "\"trace\" not implemented for 'Bool'");
    TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
    return at::diagonal(self).sum();
}

// Variance and standard deviation; `mean` may be null.
struct Moments {
    const char* name;
    const clprim::ReduceRow& row;
};

void moments(const Moments& which, const Tensor& self, at::OptionalIntArrayRef dim,
             const std::optional<Scalar>& correction, const Tensor& out, const Tensor* mean)
{
    const DimMask mask = reduced_dims(dim, self.dim());
    const double degrees = correction ? correction->toDouble() : 1.0;
    if (out.numel() > 0 && static_cast<double>(self.numel()) / static_cast<double>(out.numel()) <= degrees)
        TORCH_WARN(which.name,
                   "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                   "(input numel divided by output numel).");
    const Reduction reduction{which.row, mask, self.scalar_type(), {degrees}};
    if (mean)
        launch(reduction, {self}, {out, *mean});
    else
        launch(reduction, {self}, {out});
}

void check_moments(const char* name, const Tensor& self)
{
    TORCH_CHECK(c10::isFloatingType(self.scalar_type()) || c10::isComplexType(self.scalar_type()), name,
                " only support floating point and complex dtypes");
}

// A single result is computed in the operand's dtype by the CPU, others in the output's.
void check_moments_output(const Tensor& self, const Tensor& out)
{
    if (self.is_complex() || self.numel() == 0)
        return;
    const bool single = out.numel() == 1 && !c10::isReducedFloatingType(out.scalar_type());
    TORCH_CHECK(!single || !c10::isReducedFloatingType(self.scalar_type()), "std_var_all: Unsupported dtype ",
                self.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(single || !out.is_complex(), "\"std\" not implemented for '", out.scalar_type(), "'");
}

Tensor& moments_out(const Moments& which, const Tensor& self, at::OptionalIntArrayRef dim,
                    const std::optional<Scalar>& correction, bool keepdim, Tensor& out)
{
    check_moments("std and var", self);
    const at::ScalarType real = c10::toRealValueType(self.scalar_type());
    TORCH_CHECK(at::canCast(real, out.scalar_type()), "result type ", real,
                " can't be cast to the desired output type ", out.scalar_type());
    at::native::resize_output(out, reduced_shape(self, reduced_dims(dim, self.dim()), keepdim));
    check_moments_output(self, out);
    moments(which, self, dim, correction, out, nullptr);
    return out;
}

Tensor new_moments(const Moments& which, const Tensor& self, at::OptionalIntArrayRef dim,
                   const std::optional<Scalar>& correction, bool keepdim)
{
    Tensor out = at::empty({0}, self.options().dtype(c10::toRealValueType(self.scalar_type())));
    return moments_out(which, self, dim, correction, keepdim, out);
}

std::tuple<Tensor, Tensor> moments_with_mean(const Moments& which, const Tensor& self, at::OptionalIntArrayRef dim,
                                             const std::optional<Scalar>& correction, bool keepdim)
{
    check_moments(which.name, self);
    const c10::DimVector shape = reduced_shape(self, reduced_dims(dim, self.dim()), keepdim);
    Tensor out = at::empty(shape, self.options().dtype(c10::toRealValueType(self.scalar_type())));
    Tensor mean = at::empty(shape, self.options());
    moments(which, self, dim, correction, out, &mean);
    return {out, mean};
}

#define CLPRIM_MOMENTS(X) X(var) X(std)
#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor op##_correction(const Tensor& self, at::OptionalIntArrayRef dim, const std::optional<Scalar>& correction,   \
                           bool keepdim)                                                                               \
    {                                                                                                                  \
        return new_moments({#op, CLPRIM_REDUCE_ROW(#op)}, self, dim, correction, keepdim);                             \
    }                                                                                                                  \
    Tensor& op##_correction_out(const Tensor& self, at::OptionalIntArrayRef dim,                                       \
                                const std::optional<Scalar>& correction, bool keepdim, Tensor& out)                    \
    {                                                                                                                  \
        return moments_out({#op, CLPRIM_REDUCE_ROW(#op)}, self, dim, correction, keepdim, out);                        \
    }                                                                                                                  \
    std::tuple<Tensor, Tensor> op##_mean(const Tensor& self, at::OptionalIntArrayRef dim,                              \
                                         const std::optional<Scalar>& correction, bool keepdim)                        \
    {                                                                                                                  \
        return moments_with_mean({#op "_mean", CLPRIM_REDUCE_ROW(#op "_mean")}, self, dim, correction, keepdim);       \
    }
CLPRIM_MOMENTS(CLPRIM_DEFINE)
#undef CLPRIM_DEFINE

// Norms of vectors.
void norm(const Tensor& self, const Scalar& order, const DimMask& mask, at::ScalarType common, const Tensor& out)
{
    const double p = order.toDouble();
    const clprim::ReduceRow& row = p == 0            ? CLPRIM_REDUCE_ROW("norm0")
                                   : p == 1          ? CLPRIM_REDUCE_ROW("norm1")
                                   : p == 2          ? CLPRIM_REDUCE_ROW("norm2")
                                   : p == INFINITY   ? CLPRIM_REDUCE_ROW("norm_inf")
                                   : p == -INFINITY  ? CLPRIM_REDUCE_ROW("norm_neg_inf")
                                                     : CLPRIM_REDUCE_ROW("norm_p");
    launch({row, mask, common, {p}}, {self}, {out});
}

Tensor& linalg_vector_norm_out(const Tensor& self, const Scalar& order, at::OptionalIntArrayRef dim, bool keepdim,
                               std::optional<at::ScalarType> dtype, Tensor& out)
{
    StructuredOut<at::meta::structured_linalg_vector_norm> op({out});
    op.meta(self, order, dim, keepdim, dtype);
    norm(self, order, reduced_dims(dim, self.dim()), dtype.value_or(self.scalar_type()), op.output());
    op.finish();
    return out;
}

Tensor& norm_out(const Tensor& self, const std::optional<Scalar>& order, at::IntArrayRef dim, bool keepdim, Tensor& out)
{
    StructuredOut<at::meta::structured_norm_ScalarOpt_dim> op({out});
    const Scalar p = order.value_or(2.0);
    op.meta(self, at::OptionalScalarRef(p), dim, keepdim);
    norm(self, p, reduced_dims(dim, self.dim()), self.scalar_type(), op.output());
    op.finish();
    return out;
}

Tensor& norm_dtype_out(const Tensor& self, const std::optional<Scalar>& order, at::IntArrayRef dim, bool keepdim,
                       at::ScalarType dtype, Tensor& out)
{
    StructuredOut<at::meta::structured_norm_ScalarOpt_dim_dtype> op({out});
    const Scalar p = order.value_or(2.0);
    op.meta(self, at::OptionalScalarRef(p), dim, keepdim, dtype);
    norm(self, p, reduced_dims(dim, self.dim()), dtype, op.output());
    op.finish();
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("sum.IntList_out", &sum_out);
    m.impl("mean.out", &mean_out);
    m.impl("nansum", &nansum);
    m.impl("nansum.out", &nansum_out);
    m.impl("hash_tensor.out", &hash_tensor_out);
    m.impl("prod", &prod);
    m.impl("prod.int_out", &prod_out);
    m.impl("trace", &trace);
#define CLPRIM_REGISTER(op)                                                                                            \
    m.impl(#op ".correction", &op##_correction);                                                                       \
    m.impl(#op ".correction_out", &op##_correction_out);                                                               \
    m.impl(#op "_mean.correction", &op##_mean);
    CLPRIM_MOMENTS(CLPRIM_REGISTER)
#undef CLPRIM_REGISTER
    m.impl("linalg_vector_norm.out", &linalg_vector_norm_out);
    m.impl("norm.out", &norm_out);
    m.impl("norm.dtype_out", &norm_dtype_out);
}

}  // namespace torch_ocl
