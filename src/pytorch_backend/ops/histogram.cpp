// histogram and histogramdd: the bin of each sample by binary search, then sums of weights over the bins.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cmath>

#include <ops/outputs.hpp>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Range = std::optional<at::ArrayRef<double>>;

constexpr const char* name = "torch.histogramdd";

// Samples [n, d] as rows; the samples of a histogram over one axis are all elements.
Tensor as_rows(const Tensor& self)
{
    TORCH_CHECK(self.dim() >= 2, name, ": input tensor should have at least 2 dimensions, but got ", self.dim());
    return self.reshape({self.size(-1) == 0 ? 0 : self.numel() / self.size(-1), self.size(-1)});
}

void check_dtype(const Tensor& self, bool sixteen_bits)
{
    const at::ScalarType type = self.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble ||
                                    (sixteen_bits && (type == at::kHalf || type == at::kBFloat16)),
                                "\"histogramdd\" not "
                                "implemented for '",
                                c10::toString(type), "'");
}

// Equally wide bins over the given range, or over that of the samples: this one waits for the device.
Tensor equal_bins(const Tensor& samples, int64_t count, std::optional<std::pair<double, double>> range)
{
    TORCH_CHECK(count > 0, name, "(): number of bins must be positive, but got ", count);
    double low = 0, high = 1;
    if (range) {
        std::tie(low, high) = *range;
    } else if (samples.numel() != 0) {
        const auto [least, most] = at::aminmax(samples);
        low = least.item<double>();
        high = most.item<double>();
    }
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), name, ": range [", low, ", ", high, "] is not finite");
    TORCH_CHECK(low <= high, name, ": min should not exceed max, but got min ", low, " max ", high);
    if (low == high) {   // as in NumPy
        low -= 0.5;
        high += 0.5;
    }
    return at::linspace(low, high, count + 1, samples.options());
}

std::vector<Tensor> bin_edges(const Tensor& self, at::IntArrayRef bins, const Range& range)
{
    check_dtype(self, false);   // as the CPU, which takes given edges of sixteen bits only
    const Tensor rows = as_rows(self);
    const int64_t axes = rows.size(1);
    TORCH_CHECK(static_cast<int64_t>(bins.size()) == axes, name,
                ": The size of bins must be equal to the innermost dimension "
                "of the input.");
    TORCH_CHECK(!range || static_cast<int64_t>(range->size()) == 2 * axes, name, ": for a ", axes,
                "-dimensional histogram, "
                "range should have ",
                2 * axes, " elements, but got ", range ? range->size() : 0);
    std::vector<Tensor> edges;
    for (int64_t d = 0; d < axes; ++d)
        edges.push_back(
            equal_bins(rows.select(1, d), bins[d],
                       range ? std::optional(std::pair((*range)[2 * d], (*range)[2 * d + 1])) : std::nullopt));
    return edges;
}

// Bins are open at their upper edge, but for the last one. Samples outside and NaN do not count.
Tensor count(const Tensor& self, at::TensorList edges, const OptionalTensor& weight, bool density)
{
    check_dtype(self, true);
    const Tensor rows = as_rows(self);
    const int64_t axes = rows.size(1), samples = rows.size(0);
    TORCH_CHECK(static_cast<int64_t>(edges.size()) == axes, name,
                ": The size of bins must be equal to the innermost dimension "
                "of the input.");
    const bool weighted = weight && weight->defined();
    TORCH_CHECK(!weighted || weight->numel() == samples, name,
                ": if weight tensor is provided it should have one element for "
                "each of ",
                samples, " samples, but got ", weighted ? weight->sizes() : at::IntArrayRef());
    TORCH_CHECK(!weighted || weight->scalar_type() == self.scalar_type(), name,
                ": if weight tensor is provided, input tensor "
                "and weight tensor should have the same dtype, but got input(",
                self.scalar_type(), ") and weight(", weighted ? weight->scalar_type() : at::kFloat, ")");
    std::vector<int64_t> shape;
    Tensor place = at::zeros({samples}, self.options().dtype(at::kLong)), inside;
    for (int64_t d = 0; d < axes; ++d) {
        const Tensor& edge = edges[d];
        TORCH_CHECK(edge.dim() == 1 && edge.numel() > 0, name,
                    ": bins tensor should have one dimension and one element or more");
        TORCH_CHECK(edge.scalar_type() == self.scalar_type(), name,
                    ": input tensor and bins tensors should have the same "
                    "dtype, but got input with dtype ",
                    self.scalar_type(), " and bins for dimension ", d, " with dtype ", edge.scalar_type());
        const Tensor x = rows.select(1, d).contiguous();
        const int64_t bins = edge.numel() - 1;
        shape.push_back(bins);
        const Tensor fits = x.ge(edge.select(0, 0)).logical_and_(x.le(edge.select(0, -1)));
        inside = inside.defined() ? inside.logical_and_(fits) : fits;
        place = place * bins + at::bucketize(x, edge, false, true).sub_(1).clamp_(0, std::max<int64_t>(bins - 1, 0));
    }
    const int64_t cells = c10::multiply_integers(shape);
    // Sixteen bits are rounded once.
    const at::TensorOptions wide = self.options().dtype(at::toOpMathType(self.scalar_type()));
    Tensor result = at::zeros({cells}, wide);
    if (samples != 0 && cells != 0 && axes != 0) {
        const Tensor amount = weighted ? weight->reshape(-1).to(wide.dtype()) : at::ones({samples}, wide);
        result.index_add_(0, place, at::where(inside, amount, at::zeros({}, wide)));
    }
    result = result.view(shape);
    if (!density)
        return result.to(self.scalar_type());
    Tensor volume = result.sum();
    for (int64_t d = 0; d < axes; ++d) {
        std::vector<int64_t> along(axes, 1);
        along[d] = -1;
        volume = volume * edges[d].to(wide.dtype()).diff().view(along);
    }
    return (result / volume).to(self.scalar_type());
}

Tensor from_bin_counts(const Tensor& self, at::IntArrayRef bins, Range range, const OptionalTensor& weight,
                       bool density)
{
    return count(self, bin_edges(self, bins, range), weight, density);
}

Tensor from_bin_tensors(const Tensor& self, at::TensorList bins, const OptionalTensor& weight, bool density)
{
    return count(self, bins, weight, density);
}

std::vector<Tensor> bin_edges_of(const Tensor& self, at::IntArrayRef bins, Range range, const OptionalTensor&, bool)
{
    return bin_edges(self, bins, range);
}

Two histogram_of_tensor(const Tensor& self, const Tensor& bins, const OptionalTensor& weight, bool density)
{
    const c10::OptionalDeviceGuard guard(self.device());
    const OptionalTensor flat = weight && weight->defined() ? OptionalTensor(weight->reshape(-1)) : std::nullopt;
    return {count(self.reshape({-1, 1}), bins, flat, density), bins.clone()};
}

Two histogram_of_count(const Tensor& self, int64_t bins, Range range, const OptionalTensor& weight, bool density)
{
    const c10::OptionalDeviceGuard guard(self.device());
    return histogram_of_tensor(self, bin_edges(self.reshape({-1, 1}), bins, range)[0], weight, density);
}

std::tuple<Tensor&, Tensor&> assign(const Two& value, Tensor& hist, Tensor& edges)
{
    return {assign_output(hist, std::get<0>(value)), assign_output(edges, std::get<1>(value))};
}

void check_outputs(const Tensor& self, const Tensor& hist, const Tensor& edges)
{
    TORCH_CHECK(self.scalar_type() == hist.scalar_type(), "torch.histogram: input tensor and hist tensor should have ",
                "the same dtype, but got input ", self.dtype(), " and hist ", hist.dtype());
    TORCH_CHECK(self.scalar_type() == edges.scalar_type(), "torch.histogram: input tensor and bin_edges tensor should ",
                "have the same dtype, but got input ", self.dtype(), " and bin_edges ", edges.dtype());
}

std::tuple<Tensor&, Tensor&> histogram_of_tensor_out(const Tensor& self, const Tensor& bins,
                                                     const OptionalTensor& weight, bool density, Tensor& hist,
                                                     Tensor& edges)
{
    check_outputs(self, hist, edges);
    return assign(histogram_of_tensor(self, bins, weight, density), hist, edges);
}

std::tuple<Tensor&, Tensor&> histogram_of_count_out(const Tensor& self, int64_t bins, Range range,
                                                    const OptionalTensor& weight, bool density, Tensor& hist,
                                                    Tensor& edges)
{
    check_outputs(self, hist, edges);
    return assign(histogram_of_count(self, bins, range, weight, density), hist, edges);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("histogram.bins_tensor", histogram_of_tensor);
    m.impl("histogram.bins_tensor_out", histogram_of_tensor_out);
    m.impl("histogram.bin_ct", histogram_of_count);
    m.impl("histogram.bin_ct_out", histogram_of_count_out);
    m.impl("_histogramdd_bin_edges", bin_edges_of);
    m.impl("_histogramdd_from_bin_cts", from_bin_counts);
    m.impl("_histogramdd_from_bin_tensors", from_bin_tensors);
}

}  // namespace
}  // namespace torch_ocl
