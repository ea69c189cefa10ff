// What the implementations of deformable convolution share.
#pragma once

#include <string>

#include <clprim/deform_conv.hpp>
#include <core/choose.hpp>
#include <kernels/rounding.hpp>

namespace clprim::deform_conv {

// As kernels get it (sample.cl).
struct Geometry {
    cl_int batch, channels, height, width, out_channels, out_height, out_width;
    cl_int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    cl_int groups, offset_groups, has_mask;

    cl_int taps() const { return kernel_h * kernel_w; }
    std::int64_t pixels() const { return std::int64_t{out_height} * out_width; }
    std::int64_t image() const { return std::int64_t{height} * width; }
    cl_int channels_per_group() const { return channels / groups; }
    cl_int outputs_per_group() const { return out_channels / groups; }
    cl_int segment() const;   // length of the runs of channels that share group and offset group
};

struct Strides {
    cl_long n = 0, c = 0, h = 0, w = 0;
};
inline Strides strides_of(const Tensor& t)
{
    return t.defined() ? Strides{t.stride(0), t.stride(1), t.stride(2), t.stride(3)} : Strides{};
}

struct Problem {
    Geometry geometry;
    DeformConv2DInputs inputs;
    bool backward = false;
};
std::string describe(const Problem& problem);   // all that decides its speed, in one line

// One way to compute both passes, for core/choose.hpp.
struct Implementation {
    std::string_view name;
    Rejection (*rejects)(const Problem& problem, const Device& device);
    void (*forward)(Queue& queue, const Problem& problem, const Tensor& y);
    // All gradients that are defined, but for bias.
    void (*backward)(Queue& queue, const Problem& problem, const Tensor& gy, const DeformConv2DGradients& gradients);
    bool tune = true;
    Rejection (*advises_against)(const Problem& problem, const Device& device) = nullptr;
};

extern const Implementation cpu_amx;     // cpu_fused.cpp: tile registers, for CPUs with AMX
extern const Implementation cpu_fused;   // register tiles, for CPUs
extern const Implementation tiled;       // tiled.cpp: local-memory tiles, any problem, any device

// The sum of gy over images and pixels, the same for every implementation.
void grad_bias(Queue& queue, const Problem& problem, const Tensor& gy, const Tensor& gb);

// The dtype in which sums are kept: float32, or float64 for float64.
inline DataType compute_dtype(DataType dtype) { return dtype == DataType::float64 ? dtype : DataType::float32; }

// Work-items per group of the kernels that run with any number. No result depends on it, which a test shows by
// changing it.
inline std::size_t free_group = 64;

inline constexpr std::int64_t column_bytes = std::int64_t{64} << 20;   // of the gradient of the columns, at once

using detail::divide_up;
using detail::round_up;

}  // namespace clprim::deform_conv
