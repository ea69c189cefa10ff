// Operators over lists of tensors (_foreach_*), what PyTorch's optimisers are made of: one launch for the whole list
// where there are several and they are alike (floating point, one dtype, dense); otherwise PyTorch's own loop over
// single tensors.
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_clamp_max_native.h>
#include <ATen/ops/_foreach_clamp_min_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/_foreach_pow_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_rsqrt_native.h>
#include <ATen/ops/_foreach_sign_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <ops/optim.hpp>

namespace torch_ocl {

namespace {

using Tensors = std::vector<at::Tensor>;
using Scalars = at::ArrayRef<at::Scalar>;

template <std::size_t N>
struct Name {
    char text[N];
    constexpr Name(const char (&name)[N]) { std::copy_n(name, N, text); }
};

// Whether lists can share a launch.
bool alike(std::initializer_list<at::TensorList> lists, Scalars scalars = {})
{
    const at::TensorList first = *lists.begin();
    if (first.size() < 2 || !c10::isFloatingType(first[0].scalar_type()) ||
        !first[0].device().is_privateuseone())
        return false;
    for (const at::Scalar& scalar : scalars)
        if (scalar.isComplex() || scalar.isBoolean())   // which the functions for one tensor may refuse
            return false;
    return at::native::can_use_fast_route(at::ArrayRef<at::TensorList>(lists.begin(), lists.size()), scalars, false);
}

Tensors like(at::TensorList tensors)
{
    Tensors result;
    result.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors)
        result.push_back(at::empty_like(tensor));
    return result;
}

void run(const char* name, at::TensorList out, std::initializer_list<at::TensorList> inputs, Scalars scalars = {})
{
    std::vector<clprim::TensorList> lists = {views(out)};
    for (at::TensorList input : inputs)
        lists.push_back(views(input));
    std::vector<double> numbers;
    for (const at::Scalar& scalar : scalars)
        numbers.push_back(scalar.to<double>());
    clprim::foreach(current_queue(out[0]), name, lists, numbers);
}

// One function per schema; `slow` is PyTorch's loop.
template <Name op, auto slow>
struct Unary {
    static Tensors call(at::TensorList self)
    {
        if (!alike({self}))
            return slow(self);
        Tensors out = like(self);
        run(op.text, out, {self});
        return out;
    }
    static void inplace(at::TensorList self) { alike({self}) ? run(op.text, self, {self}) : (void)slow(self); }
};

template <Name op, auto slow>
struct WithScalar {
    static Tensors call(at::TensorList self, const at::Scalar& scalar)
    {
        if (!alike({self}, scalar))
            return slow(self, scalar);
        Tensors out = like(self);
        run(op.text, out, {self}, scalar);
        return out;
    }
    static void inplace(at::TensorList self, const at::Scalar& scalar)
    {
        alike({self}, scalar) ? run(op.text, self, {self}, scalar) : (void)slow(self, scalar);
    }
};

template <Name op, auto slow>
struct WithScalars {
    static Tensors call(at::TensorList self, Scalars scalars)
    {
        at::native::check_foreach_api_restrictions(self, scalars);
        if (!alike({self}, scalars))
            return slow(self, scalars);
        Tensors out = like(self);
        run(op.text, out, {self}, scalars);
        return out;
    }
    static void inplace(at::TensorList self, Scalars scalars)
    {
        at::native::check_foreach_api_restrictions(self, scalars);
        alike({self}, scalars) ? run(op.text, self, {self}, scalars) : (void)slow(self, scalars);
    }
};

template <Name op, auto slow>
struct WithList {
    static Tensors call(at::TensorList self, at::TensorList other)
    {
        at::native::check_foreach_api_restrictions(self, other);
        if (!alike({self, other}))
            return slow(self, other);
        Tensors out = like(self);
        run(op.text, out, {self, other});
        return out;
    }
    static void inplace(at::TensorList self, at::TensorList other)
    {
        at::native::check_foreach_api_restrictions(self, other);
        alike({self, other}) ? run(op.text, self, {self, other}) : (void)slow(self, other);
    }
};

template <Name op, auto slow>
struct WithListAndScalar {
    static Tensors call(at::TensorList self, at::TensorList other, const at::Scalar& scalar)
    {
        at::native::check_foreach_api_restrictions(self, other);
        if (!alike({self, other}, scalar))
            return slow(self, other, scalar);
        Tensors out = like(self);
        run(op.text, out, {self, other}, scalar);
        return out;
    }
    static void inplace(at::TensorList self, at::TensorList other, const at::Scalar& scalar)
    {
        at::native::check_foreach_api_restrictions(self, other);
        alike({self, other}, scalar) ? run(op.text, self, {self, other}, scalar) : (void)slow(self, other, scalar);
    }
};

template <Name op, auto slow, class Numbers>
struct WithTwoLists {   // Numbers: one scalar for all, or one per tensor
    static Tensors call(at::TensorList self, at::TensorList b, at::TensorList c, Numbers numbers)
    {
        at::native::check_foreach_api_restrictions(self, b, c);
        if (!alike({self, b, c}, numbers))
            return slow(self, b, c, numbers);
        Tensors out = like(self);
        run(op.text, out, {self, b, c}, numbers);
        return out;
    }
    static void inplace(at::TensorList self, at::TensorList b, at::TensorList c, Numbers numbers)
    {
        at::native::check_foreach_api_restrictions(self, b, c);
        alike({self, b, c}, numbers) ? run(op.text, self, {self, b, c}, numbers) : (void)slow(self, b, c, numbers);
    }
};

void zero_(at::TensorList self)
{
    alike({self}) ? run("zero", self, {self}) : at::native::foreach_tensor_zero_slow_(self);
}

void copy_(at::TensorList self, at::TensorList source, bool non_blocking)
{
    at::native::check_foreach_api_restrictions(self, source);
    alike({self, source}) ? run("copy", self, {self, source})
                          : at::native::foreach_tensor_copy_list_kernel_slow_(self, source, non_blocking);
}

// Whether a list can share a launch with a number that lies on the device, and in none of its tensors.
bool alike(at::TensorList self, const at::Tensor& number)
{
    return alike({self}) && number.numel() == 1 && number.dim() == 0 && number.device() == self[0].device() &&
           number.scalar_type() == self[0].scalar_type() &&
           std::ranges::none_of(self, [&](const at::Tensor& tensor) { return tensor.is_alias_of(number); });
}

Tensors mul_tensor(at::TensorList self, const at::Tensor& number)
{
    if (!alike(self, number))
        return at::native::foreach_tensor_mul_tensor_kernel_slow(self, number);
    Tensors out = like(self);
    run("mul_number", out, {self, Tensors(self.size(), number)});
    return out;
}

void mul_tensor_(at::TensorList self, const at::Tensor& number)
{
    if (alike(self, number))
        return run("mul_number", self, {self, Tensors(self.size(), number)});
    at::native::foreach_tensor_mul_tensor_kernel_slow_(self, number);
}

// The norms lie side by side, so that what stacks them copies once.
Tensors norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype)
{
    at::native::check_foreach_api_restrictions(self);
    const double order = ord.isComplex() ? NAN : ord.to<double>();
    const bool empty = std::ranges::any_of(self, [](const at::Tensor& tensor) { return tensor.numel() == 0; });
    if (!alike({self}) || (order != 1 && order != 2 && !(order == INFINITY && !empty)) ||
        dtype.value_or(self[0].scalar_type()) != self[0].scalar_type())
        return at::native::foreach_tensor_norm_slow(self, ord, dtype);
    const at::Tensor norms = at::empty({static_cast<std::int64_t>(self.size())}, self[0].options());
    clprim::foreach_norm(current_queue(norms), views(self), order, view(norms));
    return norms.unbind();
}

}  // namespace

// A row registers an operator and its in-place form, both under their schemas' overload name.
#define ROW(Kind, name, overload, op, slow, ...)                                                                      \
    m.impl("_foreach_" name overload, Kind<op, at::native::slow __VA_OPT__(, ) __VA_ARGS__>::call);                    \
    m.impl("_foreach_" name "_" overload, Kind<op, at::native::slow##_ __VA_OPT__(, ) __VA_ARGS__>::inplace);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    ROW(Unary, "sqrt", "", "sqrt", foreach_tensor_sqrt_slow)
    ROW(Unary, "rsqrt", "", "rsqrt", foreach_tensor_rsqrt_slow)
    ROW(Unary, "neg", "", "neg", foreach_tensor_neg_slow)
    ROW(Unary, "abs", "", "abs", foreach_tensor_abs_slow)
    ROW(Unary, "reciprocal", "", "reciprocal", foreach_tensor_reciprocal_slow)
    ROW(Unary, "exp", "", "exp", foreach_tensor_exp_slow)
    ROW(Unary, "sign", "", "sign", foreach_tensor_sign_slow)
    m.impl("_foreach_zero_", zero_);
    m.impl("_foreach_copy_", copy_);
    m.impl("_foreach_norm.Scalar", norm);
    m.impl("_foreach_mul.Tensor", mul_tensor);
    m.impl("_foreach_mul_.Tensor", mul_tensor_);

    ROW(WithScalar, "add", ".Scalar", "add_scalar", foreach_tensor_add_scalar_kernel_slow)
    ROW(WithScalar, "sub", ".Scalar", "sub_scalar", foreach_tensor_sub_scalar_kernel_slow)
    ROW(WithScalar, "mul", ".Scalar", "mul_scalar", foreach_tensor_mul_scalar_kernel_slow)
    ROW(WithScalar, "div", ".Scalar", "div_scalar", foreach_tensor_div_scalar_kernel_slow)
    ROW(WithScalar, "pow", ".Scalar", "pow_scalar", foreach_tensor_pow_scalar_kernel_slow)
    ROW(WithScalar, "maximum", ".Scalar", "maximum_scalar", foreach_tensor_clamp_min_scalar_kernel_slow)
    ROW(WithScalar, "minimum", ".Scalar", "minimum_scalar", foreach_tensor_clamp_max_scalar_kernel_slow)
    ROW(WithScalar, "clamp_min", ".Scalar", "maximum_scalar", foreach_tensor_clamp_min_scalar_kernel_slow)
    ROW(WithScalar, "clamp_max", ".Scalar", "minimum_scalar", foreach_tensor_clamp_max_scalar_kernel_slow)

    ROW(WithScalars, "add", ".ScalarList", "add_scalar", foreach_tensor_add_scalarlist_kernel_slow)
    ROW(WithScalars, "sub", ".ScalarList", "sub_scalar", foreach_tensor_sub_scalarlist_kernel_slow)
    ROW(WithScalars, "mul", ".ScalarList", "mul_scalar", foreach_tensor_mul_scalarlist_kernel_slow)
    ROW(WithScalars, "div", ".ScalarList", "div_scalar", foreach_tensor_div_scalarlist_kernel_slow)

    ROW(WithListAndScalar, "add", ".List", "add_list", foreach_tensor_add_list_kernel_slow)
    ROW(WithListAndScalar, "sub", ".List", "sub_list", foreach_tensor_sub_list_kernel_slow)
    ROW(WithListAndScalar, "lerp", ".Scalar", "lerp", foreach_tensor_lerp_list_kernel_slow)
    ROW(WithList, "mul", ".List", "mul_list", foreach_tensor_mul_list_kernel_slow)
    ROW(WithList, "div", ".List", "div_list", foreach_tensor_div_list_kernel_slow)
    ROW(WithList, "maximum", ".List", "maximum_list", foreach_tensor_clamp_min_list_kernel_slow)
    ROW(WithList, "minimum", ".List", "minimum_list", foreach_tensor_clamp_max_list_kernel_slow)

    ROW(WithTwoLists, "addcmul", ".Scalar", "addcmul", foreach_tensor_addcmul_scalar_slow, const at::Scalar&)
    ROW(WithTwoLists, "addcdiv", ".Scalar", "addcdiv", foreach_tensor_addcdiv_scalar_slow, const at::Scalar&)
    ROW(WithTwoLists, "addcmul", ".ScalarList", "addcmul", foreach_tensor_addcmul_scalarlist_slow, Scalars)
    ROW(WithTwoLists, "addcdiv", ".ScalarList", "addcdiv", foreach_tensor_addcdiv_scalarlist_slow, Scalars)
}

#undef ROW

}  // namespace torch_ocl
