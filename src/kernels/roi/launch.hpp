// What region pooling and deformable region pooling share on the host.
#pragma once

#include <algorithm>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>

#include "kernels/team.hpp"

namespace clprim::roi {

struct Strides {
    cl_long n = 0, c = 0, h = 0, w = 0;
};
inline Strides strides_of(const Tensor& t)
{
    return t.defined() ? Strides{t.stride(0), t.stride(1), t.stride(2), t.stride(3)} : Strides{};
}

inline const Program& program(Queue& queue, const char* path, DataType dtype, const std::string& options,
                              const char* op)
{
    require(is_floating_point(dtype), op, ": not implemented for ", name_of(dtype));
    require<NotSupported>(dtype != DataType::float64 || queue.device().fp64, op, ": this device has no float64: ",
                          queue.device().name);
    return queue.context().program(path, "-DX=" + std::string(name_of(dtype)) + options);
}

// Launch of an owner per (channel, band of rows, image): groups of 64 channels, and enough bands for some hundred
// groups. A rule of the shape alone.
struct Bands {
    Range range;
    cl_int rows;
};
inline Bands bands_of(const Dims& x)
{
    const std::int64_t groups = detail::divide_up(x[1], 64) * x[0];
    const std::int64_t bands =
        std::clamp<std::int64_t>(128 / std::max<std::int64_t>(groups, 1), 1, detail::divide_up(x[2], 2));
    const std::int64_t rows = detail::divide_up(x[2], bands);
    return {Range::groups({static_cast<std::size_t>(detail::divide_up(x[1], 64)),
                           static_cast<std::size_t>(detail::divide_up(x[2], rows)), static_cast<std::size_t>(x[0])},
                          {64, 1, 1}),
            static_cast<cl_int>(rows)};
}

// Calls add(gx) with zeros of the compute type, channels last so that neighbouring owners write neighbouring elements;
// then stores gx in grad_x.
template <class Add>
void accumulate(Queue& queue, const Tensor& grad_x, const Add& add)
{
    if (grad_x.numel() == 0)
        return;
    const DataType real = detail::accumulate_type(grad_x.dtype);
    Tensor gx = grad_x;
    if (grad_x.dtype != real || !grad_x.is_channels_last()) {
        gx = queue.context().empty(grad_x.shape, real, queue);
        const Dims& s = grad_x.shape;
        gx.strides = {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
    }
    fill(queue, gx, 0.);
    add(gx);
    if (gx.memory != grad_x.memory)
        copy(queue, gx, grad_x);
}

}  // namespace clprim::roi
