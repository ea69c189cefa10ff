// Operators that PyTorch composes with float64 in between, for devices that have none: the same values by integers and
// float32. Others take PyTorch's composition.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_eigvalsh.h>
#include <ATen/ops/linalg_matrix_rank_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linalg_pinv_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/linalg_pinv_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nanquantile_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/pinverse_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/quantile_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <limits>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalDim = std::optional<std::int64_t>;
using OptionalNumber = std::optional<double>;
using OptionalTensor = std::optional<Tensor>;
namespace composed = at::compositeimplicitautograd;

bool has_doubles(const Tensor& t) { return current_queue(t).device().fp64; }

// ---- quantiles ----

// q of the way to element `last`, exactly: the element below, and how far it is to the next. q is a whole number of
// 2^-shift, and its product with `last` has less than 63 bits.
struct Rank {
    Tensor below, rest;   // rest in float32
    Tensor beyond_half;   // an integer with the sign of rest - 0.5, which float32 may round to 0
};

Rank rank_of(const Tensor& q, const Tensor& last)
{
    const auto [mantissa, exponent] = at::frexp(q);
    const Tensor shift = (24 - exponent.to(at::kLong)).clamp_max(38);
    const Tensor whole = at::ldexp(q.clamp(0, 1), shift).to(at::kLong);   // below 2^-14 q is rounded to 2^-38
    const Tensor product = whole * last;
    const Tensor below = product.bitwise_right_shift(shift);
    const Tensor rest = product - below.bitwise_left_shift(shift);
    const Tensor half = at::bitwise_left_shift(at::ones_like(shift), shift - 1);
    return {below, at::ldexp(rest.to(at::kFloat), -shift), rest - half};
}

void check_quantile(const char* name, const Tensor& self, const Tensor& q, c10::string_view interpolation)
{
    TORCH_CHECK(self.numel() > 0, name, "() input tensor must be non-empty");
    TORCH_CHECK(q.dim() <= 1, name, "() q must be a scalar or 1D tensor");
    TORCH_CHECK(self.scalar_type() == at::kFloat, name, "() input tensor must be either float or double dtype");
    TORCH_CHECK(q.scalar_type() == at::kFloat, name, "() q tensor must be same dtype as the input tensor");
    TORCH_CHECK(q.device() == self.device() || q.device().is_cpu(), name,
                "() q tensor must be on the same device as the input tensor");
    for (const char* known : {"linear", "lower", "higher", "midpoint", "nearest"})
        if (interpolation == known)
            return;
    TORCH_CHECK(false, name, "() interpolation must be one of linear, lower, higher, midpoint or nearest, but got ",
                interpolation);
}

Tensor interpolated(const Tensor& sorted, const Rank& rank, const Tensor& last, c10::string_view interpolation)
{
    const Tensor above = at::minimum(rank.below + rank.rest.gt(0).to(at::kLong), last.expand_as(rank.below));
    if (interpolation == "lower")
        return sorted.gather(-1, rank.below);
    if (interpolation == "higher")
        return sorted.gather(-1, above);
    if (interpolation == "nearest") {   // halves go to the even element
        const Tensor odd = rank.below.remainder(2).ne(0), tie = rank.beyond_half.eq(0);
        const Tensor up = rank.beyond_half.gt(0).logical_or(tie.logical_and(odd));
        return sorted.gather(-1, at::where(up, above, rank.below));
    }
    const Tensor weight = interpolation == "midpoint" ? rank.rest.gt(0).to(at::kFloat) * 0.5 : rank.rest;
    return at::lerp(sorted.gather(-1, rank.below), sorted.gather(-1, above), weight);
}

Tensor narrow_quantile(const char* name, const Tensor& self, const Tensor& given, OptionalDim dim, bool keepdim,
                       c10::string_view interpolation, bool ignore_nan)
{
    check_quantile(name, self, given, interpolation);
    const Tensor q = given.to(self.device());
    const bool whole = !dim || self.dim() == 0;
    const std::int64_t wrapped = dim ? c10::maybe_wrap_dim(*dim, self.dim()) : 0;
    const Tensor sorted = std::get<0>((whole ? self.reshape({-1}) : self.movedim(wrapped, -1)).sort());
    const Tensor nan = sorted.isnan(), end = at::full({}, sorted.size(-1) - 1, sorted.options().dtype(at::kLong));
    const Tensor last = ignore_nan ? (end - nan.sum(-1, true)).clamp_min(0) : end;
    Rank rank = rank_of(q.reshape({-1}), last);
    std::vector<std::int64_t> sizes = sorted.sizes().vec();
    sizes.back() = q.numel();
    rank.below = rank.below.expand(sizes);
    rank.rest = rank.rest.expand(sizes);
    rank.beyond_half = rank.beyond_half.expand(sizes);
    if (!ignore_nan) {   // NaN lies last
        const Tensor hidden = nan.any(-1, true);
        rank = {at::where(hidden, end, rank.below), rank.rest.masked_fill(hidden, 0),
                rank.beyond_half.masked_fill(hidden, -1)};
    }
    Tensor result = interpolated(sorted, rank, last, interpolation);
    result = q.dim() == 0 ? result.squeeze(-1) : result.movedim(-1, 0);
    if (!keepdim || self.dim() == 0)
        return result;
    if (!whole)
        return result.unsqueeze(wrapped + q.dim());
    std::vector<std::int64_t> kept(self.dim(), 1);
    if (q.dim() == 1)
        kept.insert(kept.begin(), q.numel());
    return result.reshape(kept);
}

Tensor number_like(const char* name, const Tensor& self, double q)
{
    TORCH_CHECK(q >= 0 && q <= 1, name, "() q must be in the range [0, 1] but got ", q);
    return at::scalar_tensor(q, self.options());
}

// Negative shares become NaN, which no rank lies at: an error at the next synchronisation, as those above 1 are.
Tensor shares(const Tensor& q) { return at::isFloatingType(q.scalar_type()) ? q.masked_fill(q.lt(0), NAN) : q; }

Tensor quantile(const Tensor& self, const Tensor& q, OptionalDim dim, bool keepdim, c10::string_view interpolation)
{
    return has_doubles(self) ? composed::quantile(self, shares(q), dim, keepdim, interpolation)
                             : narrow_quantile("quantile", self, shares(q), dim, keepdim, interpolation, false);
}

Tensor quantile_number(const Tensor& self, double q, OptionalDim dim, bool keepdim, c10::string_view interpolation)
{
    return has_doubles(self) ? composed::quantile(self, q, dim, keepdim, interpolation)
                             : narrow_quantile("quantile", self, number_like("quantile", self, q), dim, keepdim,
                                               interpolation, false);
}

Tensor nanquantile(const Tensor& self, const Tensor& q, OptionalDim dim, bool keepdim, c10::string_view interpolation)
{
    return has_doubles(self) ? composed::nanquantile(self, shares(q), dim, keepdim, interpolation)
                             : narrow_quantile("nanquantile", self, shares(q), dim, keepdim, interpolation, true);
}

Tensor nanquantile_number(const Tensor& self, double q, OptionalDim dim, bool keepdim, c10::string_view interpolation)
{
    return has_doubles(self) ? composed::nanquantile(self, q, dim, keepdim, interpolation)
                             : narrow_quantile("nanquantile", self, number_like("nanquantile", self, q), dim, keepdim,
                                               interpolation, true);
}

// ---- ranks and pseudo-inverses: what counts as zero is a float32 tensor

struct Tolerances {
    Tensor atol, rtol;
};

Tolerances tolerances(const Tensor& self, OptionalNumber atol, OptionalNumber rtol)
{
    const auto options = self.options().dtype(c10::toRealValueType(self.scalar_type()));
    const double usual = static_cast<double>(std::numeric_limits<float>::epsilon()) *
                         static_cast<double>(std::max(self.size(-1), self.size(-2)));
    return {at::full({}, atol.value_or(0), options),
            at::full({}, rtol.value_or(atol.value_or(0) > 0 ? 0 : usual), options)};
}

Tolerances tolerances(const Tensor& self, const OptionalTensor& atol, const OptionalTensor& rtol)
{
    const Tolerances usual = tolerances(self, OptionalNumber(), OptionalNumber());
    if (rtol || !atol)
        return {atol.value_or(usual.atol), rtol.value_or(usual.rtol)};
    return {*atol, at::where(atol->gt(0), at::zeros_like(usual.rtol), usual.rtol)};
}

bool narrow_matrix(const Tensor& self)
{
    const at::ScalarType real = c10::toRealValueType(self.scalar_type());
    return !has_doubles(self) && real == at::kFloat && self.dim() >= 2;
}

Tensor rank_by(const Tensor& self, const Tolerances& t, bool hermitian)
{
    if (self.numel() == 0)
        return at::zeros(self.sizes().slice(0, self.dim() - 2), self.options().dtype(at::kLong));
    const Tensor values = hermitian ? at::linalg_eigvalsh(self).abs() : at::linalg_svdvals(self);
    const Tensor limit = at::maximum(t.atol.to(values.scalar_type()).unsqueeze(-1),
                                     t.rtol.to(values.scalar_type()).unsqueeze(-1) * values.amax(-1, true));
    return values.gt(limit).sum(-1);
}

Tensor matrix_rank(const Tensor& self, OptionalNumber atol, OptionalNumber rtol, bool hermitian)
{
    return narrow_matrix(self) ? rank_by(self, tolerances(self, atol, rtol), hermitian)
                               : composed::linalg_matrix_rank(self, atol, rtol, hermitian);
}

Tensor matrix_rank_tensor(const Tensor& self, const OptionalTensor& atol, const OptionalTensor& rtol, bool hermitian)
{
    if (!narrow_matrix(self))
        return composed::linalg_matrix_rank(self, atol, rtol, hermitian);
    return rank_by(self, tolerances(self, atol, rtol), hermitian);
}

Tensor matrix_rank_tol(const Tensor& self, double tol, bool hermitian)
{
    return narrow_matrix(self) ? rank_by(self, tolerances(self, tol, 0), hermitian)
                               : composed::linalg_matrix_rank(self, tol, hermitian);
}

Tensor pinv(const Tensor& self, OptionalNumber atol, OptionalNumber rtol, bool hermitian)
{
    if (!narrow_matrix(self))
        return composed::linalg_pinv(self, atol, rtol, hermitian);
    const Tolerances t = tolerances(self, atol, rtol);
    return at::linalg_pinv(self, OptionalTensor(t.atol), OptionalTensor(t.rtol), hermitian);
}

// The one that has a derivative: others call it.
Tensor pinv_tensor(const Tensor& self, const OptionalTensor& atol, const OptionalTensor& rtol, bool hermitian)
{
    if (!narrow_matrix(self) || (atol && rtol))
        return at::compositeexplicitautogradnonfunctional::linalg_pinv(self, atol, rtol, hermitian);
    const Tolerances t = tolerances(self, atol, rtol);
    return at::compositeexplicitautogradnonfunctional::linalg_pinv(self, OptionalTensor(t.atol), OptionalTensor(t.rtol),
                                                                   hermitian);
}

Tensor pinv_rcond(const Tensor& self, double rcond, bool hermitian)
{
    return narrow_matrix(self) ? pinv(self, 0.0, rcond, hermitian) : composed::linalg_pinv(self, rcond, hermitian);
}

Tensor pinverse(const Tensor& self, double rcond)
{
    return narrow_matrix(self) ? pinv(self, 0.0, rcond, false) : composed::pinverse(self, rcond);
}

void implement_all(torch::Library& m)
{
    m.impl("quantile", quantile);
    m.impl("quantile.scalar", quantile_number);
    m.impl("nanquantile", nanquantile);
    m.impl("nanquantile.scalar", nanquantile_number);
    m.impl("linalg_matrix_rank.atol_rtol_float", matrix_rank);
    m.impl("linalg_matrix_rank.atol_rtol_tensor", matrix_rank_tensor);
    m.impl("linalg_matrix_rank", matrix_rank_tol);
    m.impl("linalg_pinv.atol_rtol_float", pinv);
    m.impl("linalg_pinv", pinv_rcond);
    m.impl("pinverse", pinverse);
}

// Compositions are differentiated by what they consist of, so they stand before autograd, too.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    implement_all(m);
    m.impl("linalg_pinv.atol_rtol_tensor", pinv_tensor);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { implement_all(m); }

}  // namespace
}  // namespace torch_ocl
