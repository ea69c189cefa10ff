#include <clprim/sort.hpp>

#include <cmath>

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

}  // namespace clprim
