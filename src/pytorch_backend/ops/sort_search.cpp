// Searching and counting: searchsorted, bucketize, isin, bincount, histc, repeat_interleave.
#include <limits>

#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <clprim/context.hpp>
#include <clprim/sort.hpp>
#include <ops/outputs.hpp>
#include <runtime/structured.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

namespace {

using Side = std::optional<std::string_view>;

at::Tensor& searchsorted_out(const at::Tensor& boundaries, const at::Tensor& values, bool out_int32, bool right,
                             Side side, const std::optional<at::Tensor>& sorter, at::Tensor& out)
{
    const at::Tensor order = sorter.value_or(at::Tensor());
    at::native::searchsorted_pre_check(boundaries, values, out, out_int32, right, side, order);
    check_output_device(out, boundaries.device());
    at::native::resize_output(out, values.sizes());
    if (values.numel() == 0)
        return out;
    TORCH_CHECK_NOT_IMPLEMENTED(boundaries.scalar_type() != at::kBool, "\"searchsorted\" not implemented for 'Bool'");
    const at::ScalarType common = at::result_type(boundaries, values);
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::isComplexType(common), "searchsorted: not for ", common);
    const at::Tensor sorted = boundaries.to(common).contiguous(), wanted = values.to(common).contiguous();
    at::Tensor result = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
    const bool after = right || (side && *side == "right");
    const at::Tensor dense_order = order.defined() ? order.contiguous() : order;
    clprim::searchsorted(current_queue(values),
                         {view(sorted), view(std::optional<at::Tensor>(dense_order)), after}, view(wanted),
                         view(result));
    if (!result.is_same(out))
        out.copy_(result);
    return out;
}

at::Tensor searchsorted(const at::Tensor& boundaries, const at::Tensor& values, bool out_int32, bool right, Side side,
                        const std::optional<at::Tensor>& sorter)
{
    at::Tensor out = at::empty({0}, boundaries.options().dtype(out_int32 ? at::kInt : at::kLong));
    return searchsorted_out(boundaries, values, out_int32, right, side, sorter, out);
}

at::Tensor& searchsorted_scalar_out(const at::Tensor& boundaries, const at::Scalar& value, bool out_int32, bool right,
                                    Side side, const std::optional<at::Tensor>& sorter, at::Tensor& out)
{
    const at::Tensor values = at::native::searchsorted_scalar_tensor(value, boundaries.device());
    return searchsorted_out(boundaries, values, out_int32, right, side, sorter, out);
}

at::Tensor searchsorted_scalar(const at::Tensor& boundaries, const at::Scalar& value, bool out_int32, bool right,
                               Side side, const std::optional<at::Tensor>& sorter)
{
    at::Tensor out = at::empty({0}, boundaries.options().dtype(out_int32 ? at::kInt : at::kLong));
    return searchsorted_scalar_out(boundaries, value, out_int32, right, side, sorter, out);
}

at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                          at::Tensor& out)
{
    TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
    return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

at::Tensor bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right)
{
    at::Tensor out = at::empty({0}, self.options().dtype(out_int32 ? at::kInt : at::kLong));
    return bucketize_out(self, boundaries, out_int32, right, out);
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right)
{
    return torch_ocl::bucketize(at::native::searchsorted_scalar_tensor(self, boundaries.device()), boundaries,
                                out_int32, right);
}

// ---- isin ----

at::Tensor& isin_out(const at::Tensor& elements, const at::Tensor& tests, bool assume_unique, bool invert,
                     at::Tensor& out)
{
    StructuredOut<at::meta::structured_isin_Tensor_Tensor> op({out});
    op.meta(elements, tests, assume_unique, invert);
    if (elements.numel() != 0) {
        if (tests.numel() == 0) {
            op.output().fill_(invert);
        } else {
            const at::ScalarType common = at::result_type(elements, tests);
            const at::Tensor sorted = std::get<0>(tests.reshape(-1).to(common).sort());
            const at::Tensor wanted = elements.to(common);
            // NaN comes last in the order, but compares with nothing: the search takes it for infinity.
            constexpr double infinity = std::numeric_limits<double>::infinity();
            const at::Tensor ordered = c10::isFloatingType(common) ? sorted.masked_fill(sorted.isnan(), infinity)
                                                                   : sorted;
            const at::Tensor place = at::searchsorted(ordered, wanted.reshape(-1)).clamp_max(sorted.numel() - 1);
            const at::Tensor found = sorted.index_select(0, place).view(elements.sizes());
            op.output().copy_(invert ? found.ne(wanted) : found.eq(wanted));
        }
    }
    op.finish();
    return out;
}

at::Tensor& isin_scalar_out(const at::Tensor& elements, const at::Scalar& test, bool assume_unique, bool invert,
                            at::Tensor& out)
{
    StructuredOut<at::meta::structured_isin_Tensor_Scalar> op({out});
    op.meta(elements, test, assume_unique, invert);
    op.output().copy_(invert ? elements.ne(test) : elements.eq(test));
    op.finish();
    return out;
}

at::Tensor& isin_scalar_tensor_out(const at::Scalar& element, const at::Tensor& tests, bool assume_unique, bool invert,
                                   at::Tensor& out)
{
    StructuredOut<at::meta::structured_isin_Scalar_Tensor> op({out});
    op.meta(element, tests, assume_unique, invert);
    const at::Tensor found = tests.eq(element).any();
    at::native::resize_output(op.output(), {});   // PyTorch's meta function gives it no elements
    op.output().copy_(invert ? found.logical_not() : found);
    op.finish();
    return out;
}

// ---- counting ----

// How many go to each place. GPUs count by atomics; a CPU counts pieces of the list side by side, each in a row of its
// own.
at::Tensor counted(const at::Tensor& places, int64_t bins)
{
    const bool cpu = current_queue(places).device().kind == clprim::DeviceKind::cpu;
    if (!cpu && places.numel() <= std::numeric_limits<int32_t>::max()) {
        const at::Tensor counts = at::zeros({bins}, places.options().dtype(at::kInt));
        clprim::count_places(current_queue(places), view(places.contiguous()), view(counts));
        return counts.to(at::kLong);
    }
    const at::Tensor amounts = at::ones({1}, places.options()).expand({places.numel()});
    constexpr int64_t pieces = 64;
    const int64_t each = places.numel() / pieces;
    at::Tensor counts = at::zeros({bins}, amounts.options());
    if (!cpu || each < std::max<int64_t>(4 * bins, 2048))
        return counts.index_add_(0, places, amounts);
    const int64_t whole = pieces * each, rest = places.numel() - whole;
    const auto rows = [&](const at::Tensor& list) { return list.narrow(0, 0, whole).unflatten(0, {pieces, each}); };
    const at::Tensor parts = at::zeros({pieces, bins}, amounts.options()).scatter_add_(1, rows(places), rows(amounts));
    at::sum_out(counts, parts, at::IntArrayRef({0}), false);
    return rest == 0 ? counts : counts.index_add_(0, places.narrow(0, whole, rest), amounts.narrow(0, whole, rest));
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength)
{
    TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
    TORCH_CHECK(self.dim() <= 1, "bincount only supports 1-d non-negative integral inputs.");
    TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), false), "bincount: not for ",
                                self.scalar_type(), ", only for integers");
    const bool weighted = weights.has_value() && weights->defined();
    if (self.dim() == 1 && self.numel() == 0)
        return at::zeros({minlength}, self.options().dtype(at::kLong));
    TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
    TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
                "weights should be 1-d and have the same length as input");
    // How long the result is lies on the device.
    const auto [low, high] = self.to(at::kLong).aminmax();
    TORCH_CHECK(low.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    const int64_t bins = std::max(minlength, high.item<int64_t>() + 1);
    if (!weighted)
        return counted(self.to(at::kLong), bins);
    const at::ScalarType type = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
    return at::zeros({bins}, self.options().dtype(type)).index_add_(0, self.to(at::kLong), weights->to(type));
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& minimum, const at::Scalar& maximum,
                      at::Tensor& out)
{
    TORCH_CHECK(bins > 0, "bins must be > 0");
    TORCH_CHECK(self.scalar_type() == out.scalar_type(), "histc: expected an out of dtype ", self.scalar_type(),
                ", but got ", out.scalar_type());
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || c10::isIntegralType(self.scalar_type(), false),
                                "histc: not for ", self.scalar_type());
    double low = minimum.to<double>(), high = maximum.to<double>();
    TORCH_CHECK(low <= high, "max must be larger than min");
    const at::Tensor values = self.reshape(-1);
    if (low == high && values.numel() != 0) {
        const auto [least, most] = values.aminmax();
        low = least.item<double>();
        high = most.item<double>();
    }
    if (low == high) {
        low -= 1;
        high += 1;
    }
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "range of [", low, ", ", high, "] is not finite");
    const bool integers = c10::isIntegralType(self.scalar_type(), false);
    const at::Tensor numbers = integers ? values.to(at::kFloat) : values.contiguous();
    const at::Tensor place = at::empty(numbers.sizes(), self.options().dtype(at::kLong));
    clprim::histogram_bins(current_queue(self), view(numbers), {low, high, bins}, view(place));
    return assign_output(out, counted(place, bins + 1).narrow(0, 0, bins));     // without what lies outside
}

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& minimum, const at::Scalar& maximum)
{
    at::Tensor out = at::empty({0}, self.options());
    return histc_out(self, bins, minimum, maximum, out);
}

// 0 repeats[0] times, then 1 repeats[1] times, ...
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size)
{
    TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
                "repeats has to be Long or Int tensor");
    if (repeats.numel() == 0)
        return at::empty_like(repeats);
    const at::Tensor ends = repeats.cumsum(0);
    // Read at once: each reading waits for the device.
    const at::Tensor known = at::stack({repeats.amin().to(at::kLong), ends.select(0, -1)}).cpu();
    const int64_t total = known[1].item<int64_t>();
    TORCH_CHECK(known[0].item<int64_t>() >= 0, "repeats can not be negative");
    TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
    const at::Tensor result = at::empty({total}, repeats.options());
    clprim::repeat_positions(current_queue(repeats), view(ends), view(result));
    return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("searchsorted.Tensor", searchsorted);
    m.impl("searchsorted.Tensor_out", searchsorted_out);
    m.impl("searchsorted.Scalar", searchsorted_scalar);
    m.impl("searchsorted.Scalar_out", searchsorted_scalar_out);
    m.impl("bucketize.Tensor", bucketize);
    m.impl("bucketize.Tensor_out", bucketize_out);
    m.impl("bucketize.Scalar", bucketize_scalar);
    m.impl("isin.Tensor_Tensor_out", isin_out);
    m.impl("isin.Tensor_Scalar_out", isin_scalar_out);
    m.impl("isin.Scalar_Tensor_out", isin_scalar_tensor_out);
    m.impl("bincount", bincount);
    m.impl("histc", histc);
    m.impl("histc.out", histc_out);
    m.impl("repeat_interleave.Tensor", repeat_interleave);
}

}  // namespace torch_ocl
