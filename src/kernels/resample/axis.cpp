#include <clprim/resample.hpp>

#include <algorithm>
#include <cmath>

#include "kernels/team.hpp"
#include "core/operands.hpp"

namespace clprim {
namespace {

// Largest value of an integer type whose float form is not above it.
std::string limits(DataType type, DataType acc)
{
    const int bits = static_cast<int>(size_of(type)) * 8, digits = acc == DataType::float64 ? 53 : 24;
    const int value_bits = is_signed(type) ? bits - 1 : bits;
    const double highest = value_bits <= digits ? std::ldexp(1.0, value_bits) - 1
                                                : std::ldexp(1.0, value_bits) - std::ldexp(1.0, value_bits - digits);
    const double lowest = is_signed(type) ? -std::ldexp(1.0, value_bits) : 0;
    return detail::concat(" -DINTEGERS -DLOWEST=", static_cast<std::int64_t>(lowest), " -DHIGHEST=",
                          static_cast<std::uint64_t>(highest), "ul");
}

template <class T, class Values>
Tensor upload(Queue& queue, const Values& values, DataType type)
{
    const std::vector<T> elements(values.begin(), values.end());
    const Tensor result = queue.context().empty({static_cast<std::int64_t>(elements.size())}, type, queue);
    queue.write(*result.memory, 0, elements.data(), elements.size() * sizeof(T));
    return result;
}

}  // namespace

void resample_axis(Queue& queue, const Tensor& x, const Tensor& y, std::size_t axis, const AxisTaps& taps)
{
    detail::check_operands("resample_axis", {{"x", x}, {"y", y}});
    require(axis < x.dim() && x.dim() == y.dim(), "resample_axis: no axis ", axis, " in shapes ", to_string(x.shape),
            " and ", to_string(y.shape));
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < x.dim(); ++i) {
        require(i == axis || x.size(i) == y.size(i), "resample_axis: shapes ", to_string(x.shape), " and ",
                to_string(y.shape), " differ beside axis ", axis);
        (i < axis ? outer : inner) *= i == axis ? 1 : x.size(i);
    }
    require(x.is_contiguous() && y.is_contiguous(), "resample_axis: tensors must be contiguous");
    const bool weighted = !taps.weights.empty();
    const std::size_t table = static_cast<std::size_t>(y.size(axis)) * taps.taps;
    require(taps.indices.size() == table && (weighted ? taps.weights.size() == table : taps.taps == 1),
            "resample_axis: ", taps.indices.size(), " indices and ", taps.weights.size(), " weights for ", y.size(axis),
            " outputs of ", taps.taps, " taps");
    require(std::ranges::all_of(taps.indices, [&](std::int32_t i) { return i < x.size(axis); }),
            "resample_axis: an index is outside of the axis of ", x.size(axis));
    if (weighted)
        for (std::size_t i = 0; i < table; ++i)
            require(taps.indices[i] >= 0 || taps.indices[i / taps.taps * taps.taps] < 0, "resample_axis: index ",
                    taps.indices[i], " of a later tap is outside of the axis");
    require(weighted ? !is_complex(x.dtype) && (is_floating_point(y.dtype) || is_integral(y.dtype))
                     : x.dtype == y.dtype,
            "resample_axis: ", name_of(x.dtype), " cannot become ", name_of(y.dtype));
    constexpr std::int64_t most = std::int64_t{1} << 31;
    require(inner < most && x.size(axis) < most && y.size(axis) < most && std::int64_t(table) < most,
            "resample_axis: an axis is too long");
    if (y.numel() == 0)
        return;
    const bool wide = x.dtype == DataType::float64 || y.dtype == DataType::float64;
    const DataType acc = wide ? DataType::float64 : DataType::float32;
    std::string options = detail::define("X", x.dtype) + detail::define("Y", y.dtype) + " -DACC=" +
                          std::string(opencl_compute_type(acc));
    if (weighted)
        options += " -DWEIGHTED";
    if (weighted && !is_floating_point(y.dtype))
        options += limits(y.dtype, acc);
    const Tensor indices = upload<std::int32_t>(queue, taps.indices, DataType::int32);
    Tensor weights;
    if (weighted)
        weights = wide ? upload<double>(queue, taps.weights, acc) : upload<float>(queue, taps.weights, acc);
    constexpr std::int64_t long_rows = 16;
    Range range;
    range.dims = 3;
    if (inner >= long_rows || inner * y.size(axis) >= most) {
        range.global = {std::size_t(inner), std::size_t(y.size(axis)), std::size_t(outer)};
    } else {
        options += " -DFLAT";
        range.global = {std::size_t(inner * y.size(axis)), std::size_t(outer), 1};
    }
    detail::launch(queue, queue.context().program("kernels/resample/axis.cl", options).kernel("resample_axis"), range,
                   x, y, indices, weights, cl_uint(x.size(axis)), cl_uint(y.size(axis)), cl_uint(inner),
                   cl_uint(taps.taps), detail::AccScalar{taps.fill, acc});
}

void resample_repeat(Queue& queue, const Tensor& x, const Tensor& y, std::int64_t factor_y, std::int64_t factor_x)
{
    detail::check_operands("resample_repeat", {{"x", x}, {"y", y}});
    require(x.dim() >= 2 && factor_y > 0 && factor_x > 0, "resample_repeat: x has shape ", to_string(x.shape),
            ", factors are ", factor_y, " and ", factor_x);
    Dims shape = x.shape;
    for (const auto& [axis, factor] : {std::pair(x.dim() - 2, factor_y), std::pair(x.dim() - 1, factor_x)})
        require(!__builtin_mul_overflow(shape[axis], factor, &shape[axis]), "resample_repeat: factor ", factor,
                " is too large for shape ", to_string(x.shape));
    require(y.shape == shape && x.dtype == y.dtype && x.is_contiguous() && y.is_contiguous(), "resample_repeat: y is ",
            name_of(y.dtype), " ", to_string(y.shape), ", expected ", name_of(x.dtype), " ", to_string(shape),
            ", both contiguous");
    if (y.numel() == 0)
        return;
    const std::int64_t height = x.size(x.dim() - 2), width = x.size(x.dim() - 1);
    const std::size_t bytes = size_of(x.dtype);
    const std::string type = bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 4 ? "uint" : "ulong";
    const bool cpu = queue.device().kind == DeviceKind::cpu;
    const std::int64_t chunk = cpu && bytes < 16 ? 16 : 1;
    std::string options = detail::concat(" -DT=", type, bytes == 16 ? "2" : "", " -DFY=", factor_y,
                                               " -DFX=", factor_x, " -DCHUNK=", chunk, " -DVECTOR=", type, 16);
    if (!cpu && bytes < 16 && (factor_x == 2 || factor_x == 4) && y.buffer_offset() % factor_x == 0)
        options += detail::concat(" -DTOGETHER=", type, factor_x);
    Range range;
    range.dims = 3;
    range.global = {std::size_t((width + chunk - 1) / chunk), std::size_t(height),
                    std::size_t(x.numel() / width / height)};
    if (!cpu)
        range = detail::plane_range(queue.device(), range.global[0], range.global[1], range.global[2]);
    detail::launch(queue, queue.context().program("kernels/resample/repeat.cl", options).kernel("resample_repeat"),
                   range, x, y, cl_uint(width), cl_uint(height));
}

}  // namespace clprim
