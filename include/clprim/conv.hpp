// Convolution in one to three spatial dimensions, forward and both gradients, ordinary and transposed.
//
//   y[n, o, p] = act([y[n, o, p] +] bias[o] + sum over c, t of
//                  w[o, c, t] * x[n, g(o)*C + c, p*stride - pad_begin + t*dilation])
//
// with p and t running over the output positions and kernel taps and C = in_channels / groups; x is 0 outside its
// borders. A transposed convolution is the data gradient of the ordinary one used as a forward pass.
//
// Tensors: x (N, Cin, spatial...), w (Cout, Cin/groups, kernel...), or (Cin, Cout/groups, kernel...) when transposed,
// y (N, Cout, spatial...), bias (Cout); one dtype for all. Any strides are right; contiguous (NCHW) and channels_last
// tensors are fast. float16 and bfloat16 are stored as such and computed in float32. Nothing here uses atomics: the
// same call gives the same bits.
//
// Every function throws InvalidArgument when shapes or dtypes do not fit together, NotSupported for a dtype that the
// device lacks, before anything is launched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <clprim/activation.hpp>
#include <clprim/context.hpp>
#include <clprim/prepared.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class ConvPass { forward, backward_data, backward_weight };

// What does not follow from the shapes. An empty list stands for ones (stride, dilation) or zeros (padding).
struct ConvOptions {
    Dims stride, pad_begin, pad_end, dilation;
    Dims output_padding;                  // transposed only: extra size at the end of every axis
    std::int64_t groups = 1;
    bool transposed = false;
    // Of the forward pass only.
    Activation activation = Activation::none;   // any but tanh
    float alpha = 0, beta = 0;            // of the activation
    bool accumulate = false;              // add to what y holds (a residual connection), then activate
    Prepared* prepared = nullptr;         // of w, which then never changes: what is derived from it is kept there
    std::string implementation;           // use this one or throw NotSupported with its reason; empty: the first fit
};

// Shape of y for the shapes of x and w. May hold values below 1: then there is no output.
Dims conv_output_shape(const Dims& x, const Dims& w, const ConvOptions& options);

void conv_forward(Queue& queue, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                  const ConvOptions& options);          // bias may be undefined
void conv_backward_data(Queue& queue, const Tensor& dy, const Tensor& w, const Tensor& dx, const ConvOptions& options);
void conv_backward_weight(Queue& queue, const Tensor& x, const Tensor& dy, const Tensor& dw,
                          const ConvOptions& options);
void conv_backward_bias(Queue& queue, const Tensor& dy, const Tensor& dbias);   // sum over all but channels

// Implementations of a pass in the order in which they are tried. The last one takes everything.
std::vector<std::string_view> conv_implementations(ConvPass pass);

}  // namespace clprim
CLPRIM_API_END
