#include <clprim/sort.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <clprim/context.hpp>
#include <core/operands.hpp>

namespace clprim {

void histogram_bins(Queue& queue, const Tensor& values, const Bins& bins, const Tensor& out)
{
    detail::check_operands("histogram_bins", {{"values", values}, {"out", out}});
    require<NotSupported>(is_floating_point(values.dtype), "histogram_bins: not for ", name_of(values.dtype));
    require(bins.count > 0 && std::isfinite(bins.low) && std::isfinite(bins.high) && bins.low < bins.high,
            "histogram_bins: expected one bin or more between finite numbers; got ", bins.count, " from ", bins.low,
            " to ", bins.high);
    require(values.is_contiguous() && out.is_contiguous() && out.dtype == DataType::int64 && out.shape == values.shape,
            "histogram_bins: values and out must be contiguous, and out int64 of the values' shape");
    const cl_ulong n = values.numel();
    if (n == 0)
        return;
    Kernel& kernel = queue.context()
                         .program("kernels/sort/histogram.cl", "-DT=" + std::string(name_of(values.dtype)))
                         .kernel("histogram_bins");
    const auto launch = [&](auto low, auto high) {
        queue.launch(kernel, Range::linear(n, 64), values, out, low, high, n, cl_long{bins.count});
    };
    if (values.dtype == DataType::float64)
        launch(cl_double(bins.low), cl_double(bins.high));
    else
        launch(static_cast<cl_float>(bins.low), static_cast<cl_float>(bins.high));
}

void count_places(Queue& queue, const Tensor& places, const Tensor& counts)
{
    detail::check_operands("count_places", {{"places", places}, {"counts", counts}});
    require(places.dtype == DataType::int64 && places.is_contiguous() && counts.dtype == DataType::int32 &&
                counts.dim() == 1 && counts.is_contiguous(),
            "count_places: places are contiguous int64, counts a contiguous vector of int32; got ",
            name_of(places.dtype), " and ", name_of(counts.dtype), " of shape ", to_string(counts.shape));
    const std::int64_t n = places.numel(), bins = counts.numel();
    require(n <= std::numeric_limits<std::int32_t>::max(), "count_places: 2^31 or more places");
    if (n == 0)
        return;
    constexpr std::int64_t group = 256, each = 16, most_groups = 1024, most_local = 4096;
    const std::int64_t groups = std::clamp<std::int64_t>(n / (group * each), 1, most_groups);
    // Worth it where a group counts more than it has to add up.
    // A few programs serve all numbers of places, which data decide.
    const auto room = std::max<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(bins)), 256);
    const bool local = bins <= most_local && 2 * bins <= n / groups &&
                       room * sizeof(cl_uint) <= queue.device().local_memory;
    const std::string options = local ? "-DBINS=" + std::to_string(room) : "";
    queue.launch(queue.context().program("kernels/sort/histogram.cl", options).kernel("count_places"),
                 Range::groups(static_cast<std::size_t>(groups),
                               std::min<std::size_t>(group, queue.device().max_work_group_size)),
                 places, counts, cl_ulong(n), cl_ulong(bins));
}

}  // namespace clprim
