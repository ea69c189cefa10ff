// Deformable convolution, version 1 (offsets) and 2 (offsets and masks), forward and backward.
//
// With taps k = i * kernel_w + j, channels c of group g and of offset group d = c / (C / offset_groups):
//
//     y[n, o, p] = bias[o] + sum over c, k of  weight[o, c, i, j] * mask[n, d, k, p] * sample(x[n, c], position)
//     position   = p * stride - padding + (i, j) * dilation + (offset[n, d, 2k, p], offset[n, d, 2k + 1, p])
//
// sample() is bilinear interpolation with zeros outside: a position counts when -1 < h < H and -1 < w < W, corners
// outside of the image are 0. A NaN, infinite or far-away position gives 0 and has gradient 0; memory outside of x is
// never touched. Exactly at h = -1 or w = -1 the derivative is the one-sided one, as in torchvision.
//
// Dai et al., "Deformable Convolutional Networks", 2017; Zhu et al., "Deformable ConvNets v2", 2018.
//
// Shapes: x [N, C, H, W], weight [O, C / groups, KH, KW], offset [N, 2 * offset_groups * KH * KW, OH, OW],
// mask [N, offset_groups * KH * KW, OH, OW] or undefined, bias [O] or undefined, y [N, O, OH, OW].
// All tensors share one dtype: float32, float64, float16 or bfloat16 (the last two are computed in float32).
// Any strides; channels_last is read and written in place.
//
// No result depends on scheduling: every output element has one owner that adds in a fixed order, so two runs give the
// same bits. Everything is asynchronous.
#pragma once

#include <string>
#include <vector>

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct DeformConv2D {
    std::int64_t stride[2] = {1, 1};
    std::int64_t padding[2] = {0, 0};
    std::int64_t dilation[2] = {1, 1};
    std::int64_t groups = 1;
    std::int64_t offset_groups = 1;
};

// The inputs of the forward pass; mask and bias may be undefined.
struct DeformConv2DInputs {
    Tensor x, offset, mask, weight, bias;
};

// What backward writes; undefined tensors are not computed. Shapes and dtypes of the inputs, any strides.
struct DeformConv2DGradients {
    Tensor x, offset, mask, weight, bias;
};

// Shape [N, O, OH, OW] of the result. Throws InvalidArgument, in torchvision's words, when the inputs do not fit.
Dims deform_conv2d_shape(const DeformConv2D& parameters, const DeformConv2DInputs& inputs);

// Throws InvalidArgument for wrong shapes or dtypes and NotSupported for float64 on a device without it.
void deform_conv2d(Queue& queue, const DeformConv2D& parameters, const DeformConv2DInputs& inputs, const Tensor& y);

// Needs a workspace for the gradient of the columns, KH * KW * C * Q elements of the compute type, where Q is the
// number of output pixels handled at once: as many as fit in 64 MiB, at least 1024. The rest of the workspace is of
// the order of x, y and weight.
void deform_conv2d_backward(Queue& queue, const DeformConv2D& parameters, const DeformConv2DInputs& inputs,
                            const Tensor& grad_y, const DeformConv2DGradients& gradients);

// Why each implementation does or does not apply, in the order of preference: "name" or "name: reason". For tests and
// verbose output; CLPRIM_IMPLEMENTATION=deform_conv=<name> makes the library use that one where it applies.
std::vector<std::string> deform_conv2d_implementations(const Device& device, const DeformConv2D& parameters,
                                                       const DeformConv2DInputs& inputs);

}  // namespace clprim
CLPRIM_API_END
