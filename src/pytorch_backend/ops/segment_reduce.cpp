// Reductions of segments of an axis, given by their lengths or offsets: made of searches, gathers and scatters.
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace torch_ocl {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The segments of an axis of data [outer..., N, inner...].
struct Segments {
    int64_t axis, count;
    Tensor lengths;   // [outer..., count]
    Tensor of;        // [outer..., N, inner...]: the segment of each element; `count` behind the last one

    Tensor along_data(const Tensor& per_segment) const { return per_segment.gather(axis, of); } // of count + 1 segments

    // [outer..., count, inner...] from [outer..., count]
    Tensor widened(Tensor per_segment, int64_t dims) const
    {
        while (per_segment.dim() < dims)
            per_segment = per_segment.unsqueeze(-1);
        return per_segment;
    }

    // One more segment for the elements that belong to none.
    Tensor padded(const Tensor& per_segment) const
    {
        return at::cat({per_segment, at::zeros_like(per_segment.narrow(axis, 0, 1))}, axis);
    }
};

Segments segments_of(const Tensor& data, const OptionalTensor& lengths, const OptionalTensor& offsets, int64_t axis)
{
    Segments s;
    s.axis = axis;
    Tensor ends;
    if (offsets && offsets->defined()) {
        s.lengths = offsets->diff(1, -1);
        ends = offsets->narrow(-1, 1, offsets->size(-1) - 1);
        TORCH_CHECK(offsets->dim() == axis + 1, "segment_reduce: expected offsets of ", axis + 1, " dimensions, got ",
                    offsets->sizes());
    }
    else {
        TORCH_CHECK(lengths && lengths->defined(), "segment_reduce(): Either lengths or offsets must be defined.");
        TORCH_CHECK(lengths->dim() == axis + 1, "segment_reduce: expected lengths of ", axis + 1, " dimensions, got ",
                    lengths->sizes());
        s.lengths = *lengths;
        ends = lengths->cumsum(-1);
    }
    for (int64_t d = 0; d < axis; ++d)
        TORCH_CHECK(s.lengths.size(d) == data.size(d), "segment_reduce: expected size ", data.size(d), " in dimension ",
                    d, " of ", lengths && lengths->defined() ? "lengths" : "offsets", ", got ", s.lengths.size(d));
    s.count = s.lengths.size(-1);
    std::vector<int64_t> sizes = data.sizes().slice(0, axis + 1).vec();
    const Tensor positions = at::arange(data.size(axis), ends.options()).expand(sizes).contiguous();
    Tensor of = at::searchsorted(ends.contiguous(), positions, false, true);
    if (offsets && offsets->defined())   // the first segment may begin behind the first element
        of = of.masked_fill(positions.lt(offsets->narrow(-1, 0, 1)), s.count);
    s.of = s.widened(of, data.dim()).expand(data.sizes());
    return s;
}

// PyTorch takes the names of `scatter_reduce` too.
std::string_view known_by(std::string_view reduce)
{
    return reduce == "amax" ? "max" : reduce == "amin" ? "min" : reduce;
}

// What an empty segment gives, and where a reduction starts.
double neutral(std::string_view reduce)
{
    if (reduce == "max")
        return -std::numeric_limits<double>::infinity();
    if (reduce == "min")
        return std::numeric_limits<double>::infinity();
    TORCH_CHECK(reduce == "sum" || reduce == "mean" || reduce == "prod",
                "segment_reduce: unsupported reduction given! ", reduce);
    return reduce == "prod" ? 1 : 0;
}

std::string_view scatter_name(std::string_view reduce)
{
    return reduce == "max" ? "amax" : reduce == "min" ? "amin" : reduce == "prod" ? "prod" : "sum";
}

Tensor scattered(const Segments& s, const Tensor& data, std::string_view reduce, double start)
{
    std::vector<int64_t> sizes = data.sizes().vec();
    sizes[s.axis] = s.count + 1;
    return at::full(sizes, start, data.options()).scatter_reduce(s.axis, s.of, data, scatter_name(reduce));
}

Tensor segment_reduce(const Tensor& data, std::string_view given, const OptionalTensor& lengths,
                      const OptionalTensor& indices, const OptionalTensor& offsets, int64_t axis, bool unsafe,
                      const std::optional<at::Scalar>& initial)
{
    axis = at::maybe_wrap_dim(axis, data.dim());
    TORCH_CHECK(data.dim() > 0, "segment_reduce(): expected data with a dimension, got ", data.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(data.scalar_type()),
                                "segment_reduce: expected data of a floating-point type, got ", data.scalar_type());
    TORCH_CHECK(!indices || !indices->defined(), "segment_reduce(): indices based reduction is not supported yet.");
    const std::string_view reduce = known_by(given);
    const double start = initial ? initial->to<double>() : neutral(reduce);
    const c10::OptionalDeviceGuard guard(data.device());
    const Segments s = segments_of(data, lengths, offsets, axis);
    if (!unsafe && lengths && lengths->defined()) {   // to know it waits, as PyTorch says
        TORCH_CHECK(
            (s.lengths.ge(0).all() & s.lengths.sum(-1).eq(data.size(axis)).all()).item<bool>(),
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe.");
    } else if (!unsafe) {
        TORCH_CHECK((s.lengths.ge(0).all() & offsets->ge(0).all() & offsets->le(data.size(axis)).all()).item<bool>(),
                    "segment_reduce(): expected offsets from 0 to data.size(axis) that do not decrease when !unsafe.");
    }
    Tensor result = scattered(s, data, reduce, start).narrow(axis, 0, s.count);
    if (reduce == "mean") {
        const Tensor size = s.widened(s.lengths, data.dim());
        const double empty = initial ? start : std::numeric_limits<double>::quiet_NaN();
        result = at::where(size.gt(0), result / size, empty).to(data.scalar_type());
    }
    return result.contiguous();
}

// Product of all other elements of the segment, `start` among them. Where an element is neither zero nor NaN that is a
// quotient; else the product of the ordinary ones and of the other zeros and NaN.
Tensor product_of_others(const Segments& s, const Tensor& data, const Tensor& product, double start)
{
    const Tensor zero = data.eq(0), nan = data.isnan(), special = zero.logical_or(nan);
    const auto others = [&](const Tensor& mark) {
        return s.along_data(scattered(s, mark.to(at::kFloat), "sum", 0)).sub(mark.to(at::kFloat)).gt(0);
    };
    const Tensor ordinary = s.along_data(scattered(s, data.masked_fill(special, 1), "prod", start));
    const Tensor rest = ordinary.masked_fill(others(zero), 0).masked_fill(
        others(nan), std::numeric_limits<double>::quiet_NaN());
    return at::where(special, rest, s.along_data(s.padded(product)) / data);
}

Tensor segment_reduce_backward(const Tensor& grad, const Tensor& output, const Tensor& data, std::string_view given,
                               const OptionalTensor& lengths, const OptionalTensor& offsets, int64_t axis,
                               const std::optional<at::Scalar>& initial)
{
    axis = at::maybe_wrap_dim(axis, data.dim());
    const std::string_view reduce = known_by(given);
    const double start = initial ? initial->to<double>() : neutral(reduce);
    const c10::OptionalDeviceGuard guard(data.device());
    const Segments s = segments_of(data, lengths, offsets, axis);
    const Tensor wide = s.along_data(s.padded(grad));   // zero for elements of no segment
    if (reduce == "sum")
        return wide;
    if (reduce == "mean")
        return wide / s.along_data(s.padded(s.widened(s.lengths, data.dim()).expand(grad.sizes())).clamp_min(1));
    if (reduce == "prod")
        return wide * product_of_others(s, data, output, start);
    // All elements that are the extreme share its gradient.
    const Tensor chosen = data.eq(s.along_data(s.padded(output))).logical_or(data.isnan());
    const Tensor ties = s.along_data(scattered(s, chosen.to(data.scalar_type()), "sum", 0)).clamp_min(1);
    return at::where(chosen, wide / ties, 0).to(data.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("segment_reduce", segment_reduce);
    m.impl("_segment_reduce_backward", segment_reduce_backward);
}

}  // namespace
}  // namespace torch_ocl
