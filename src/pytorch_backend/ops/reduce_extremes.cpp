// Extremes and their positions, any, all, counts.
#include <ops/reduce.hpp>

#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/min_meta.h>
#include <torch/library.h>

#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;

#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out)                               \
    {                                                                                                                  \
        StructuredOut<at::meta::structured_##op> meta({out});                                                          \
        meta.meta(self, dim, keepdim);                                                                                 \
        launch({CLPRIM_REDUCE_ROW(#op), reduced_dims(dim, self.dim()), self.scalar_type()}, {self}, {meta.output()});  \
        meta.finish();                                                                                                 \
        return out;                                                                                                    \
    }
CLPRIM_DEFINE(amax)
CLPRIM_DEFINE(amin)
#undef CLPRIM_DEFINE

#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out)                        \
    {                                                                                                                  \
        StructuredOut<at::meta::structured_##op> meta({out});                                                          \
        meta.meta(self, dim, keepdim);                                                                                 \
        launch({CLPRIM_REDUCE_ROW(#op), reduced_dim(dim, self.dim()), self.scalar_type()}, {self}, {meta.output()});   \
        meta.finish();                                                                                                 \
        return out;                                                                                                    \
    }
CLPRIM_DEFINE(argmax)
CLPRIM_DEFINE(argmin)
#undef CLPRIM_DEFINE

// Values and positions along a dimension, and over everything.
#define CLPRIM_DEFINE(op)                                                                                              \
    std::tuple<Tensor&, Tensor&> op##_dim_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values,           \
                                              Tensor& indices)                                                         \
    {                                                                                                                  \
        StructuredOut<at::meta::structured_##op##_dim> meta({values, indices});                                        \
        meta.meta(self, dim, keepdim);                                                                                 \
        launch({CLPRIM_REDUCE_ROW(#op), reduced_dim(dim, self.dim()), self.scalar_type()}, {self},                     \
               {meta.output(0), meta.output(1)});                                                                      \
        meta.finish();                                                                                                 \
        return {values, indices};                                                                                      \
    }                                                                                                                  \
    Tensor& op##_all_out(const Tensor& self, Tensor& out)                                                              \
    {                                                                                                                  \
        TORCH_CHECK(self.numel() > 0, #op "(): Expected reduction dim to be specified for input.numel() == 0. "        \
                                          "Specify the reduction dim with the 'dim' argument.");                       \
        TORCH_CHECK(at::canCast(self.scalar_type(), out.scalar_type()), "result type ", self.scalar_type(),            \
                    " can't be cast to the desired output type ", out.scalar_type());                                  \
        at::native::resize_output(out, {});                                                                            \
        launch({CLPRIM_REDUCE_ROW("a" #op), DimMask().set(), self.scalar_type()}, {self}, {out});                      \
        return out;                                                                                                    \
    }                                                                                                                  \
    Tensor op##_all(const Tensor& self)                                                                                \
    {                                                                                                                  \
        Tensor out = at::empty({}, self.options());                                                                    \
        return op##_all_out(self, out);                                                                                \
    }
CLPRIM_DEFINE(max)
CLPRIM_DEFINE(min)
#undef CLPRIM_DEFINE

std::tuple<Tensor&, Tensor&> aminmax_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& low,
                                         Tensor& high)
{
    StructuredOut<at::meta::structured_aminmax> meta({low, high});
    meta.meta(self, dim, keepdim);
    launch({CLPRIM_REDUCE_ROW("aminmax"), reduced_dim(dim, self.dim()), self.scalar_type()}, {self},
           {meta.output(0), meta.output(1)});
    meta.finish();
    return {low, high};
}
std::tuple<Tensor, Tensor> aminmax_all(const Tensor& self) { return self.aminmax(); }
std::tuple<Tensor, Tensor> aminmax_dim(const Tensor& self, int64_t dim, bool keepdim)
{
    return self.aminmax(dim, keepdim);
}

#define CLPRIM_DEFINE(op)                                                                                              \
    Tensor& op##_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& out)                                       \
    {                                                                                                                  \
        StructuredOut<at::meta::structured_##op##_dim> meta({out});                                                    \
        meta.meta(self, dim, keepdim);                                                                                 \
        launch({CLPRIM_REDUCE_ROW(#op), reduced_dim(dim, self.dim()), self.scalar_type()}, {self}, {meta.output()});   \
        meta.finish();                                                                                                 \
        return out;                                                                                                    \
    }                                                                                                                  \
    Tensor& op##_all_out(const Tensor& self, Tensor& out)                                                              \
    {                                                                                                                  \
        StructuredOut<at::meta::structured_##op> meta({out});                                                          \
        meta.meta(self);                                                                                               \
        launch({CLPRIM_REDUCE_ROW(#op), DimMask().set(), self.scalar_type()}, {self}, {meta.output()});                \
        meta.finish();                                                                                                 \
        return out;                                                                                                    \
    }
CLPRIM_DEFINE(any)
CLPRIM_DEFINE(all)
#undef CLPRIM_DEFINE

Tensor count_nonzero(const Tensor& self, at::IntArrayRef dims)
{
    const DimMask mask = reduced_dims(dims, self.dim());
    Tensor out = at::empty(reduced_shape(self, mask, false), self.options().dtype(at::kLong));
    launch({CLPRIM_REDUCE_ROW("count_nonzero"), mask, self.scalar_type()}, {self}, {out});
    return out;
}

bool equal(const Tensor& self, const Tensor& other)
{
    TORCH_CHECK(self.device() == other.device(),
                "Cannot compare two tensors on different devices. Got: ", self.device(), " and ", other.device());
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected all tensors to have the same dtype, but found ",
                self.scalar_type(), " and ", other.scalar_type());
    return self.sizes() == other.sizes() && at::eq(self, other).all().item<bool>();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("amax.out", &amax_out);
    m.impl("amin.out", &amin_out);
    m.impl("argmax.out", &argmax_out);
    m.impl("argmin.out", &argmin_out);
    m.impl("max.dim_max", &max_dim_out);
    m.impl("max.unary_out", &max_all_out);
    m.impl("max", &max_all);
    m.impl("min.dim_min", &min_dim_out);
    m.impl("min.unary_out", &min_all_out);
    m.impl("min", &min_all);
    m.impl("aminmax.out", &aminmax_out);
    m.impl("_aminmax", &aminmax_all);
    m.impl("_aminmax.dim", &aminmax_dim);
    m.impl("any.out", &any_out);
    m.impl("any.all_out", &any_all_out);
    m.impl("all.out", &all_out);
    m.impl("all.all_out", &all_all_out);
    m.impl("count_nonzero.dim_IntList", &count_nonzero);
    m.impl("equal", &equal);
}

}  // namespace torch_ocl
