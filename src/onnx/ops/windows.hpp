// Sliding windows over spatial axes, as attributes of convolutions and poolings say them.
#pragma once

#include <array>

#include "onnx/call.hpp"

namespace clprim::onnx {

struct Windows {
    Dims kernel, stride, dilation, pad_begin, pad_end;   // one entry per spatial axis
    bool ceil_mode = false;

    std::int64_t extent(std::size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
    // How many windows fit along an axis of `in` elements. With ceil_mode a last one may hang over the end, if it
    // begins inside the input or its left padding.
    std::int64_t count(std::size_t axis, std::int64_t in) const;
    Dims output_shape(const Dims& x, std::int64_t channels) const;   // N, channels, count...
    bool symmetric() const { return pad_begin == pad_end; }
};

// Attributes kernel_shape (or `kernel`, where weights tell it), strides, dilations, pads and auto_pad for x of shape
// N, C, spatial...; checked.
Windows windows(const Call& call, const Dims& x, Dims kernel = {});

// A list attribute with one entry for each of `count` spatial axes; `otherwise` in each if it is absent.
Dims spatial_attribute(const Call& call, std::string_view name, std::size_t count, std::int64_t otherwise);

// The spatial sizes of N, C, spatial...; throws for fewer than three axes.
Dims spatial_sizes(const Call& call, const Dims& x);

// Input i as the convolution and pooling kernels want it: row-major or channels_last, copied only if it is neither.
Tensor dense_image(const Call& call, std::size_t i);

// Input i as convolutions want it: also channels of a larger image, so long as planes are dense or channels adjacent.
Tensor image(const Call& call, std::size_t i);

// An empty tensor, channels_last if asked for.
Tensor allocate_image(const Call& call, const Dims& shape, DataType dtype, bool channels_last);

// The same for output 0, in its place within a concatenation if it has one.
Tensor output_image(const Call& call, const Dims& shape, DataType dtype, bool channels_last);

}  // namespace clprim::onnx
