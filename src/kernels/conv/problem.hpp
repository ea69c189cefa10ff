// What the implementations of convolution see: one ordinary (never transposed) convolution in three spatial
// dimensions, and which of its three tensors is the result.
#pragma once

#include <string>

#include <clprim/conv.hpp>
#include <core/choose.hpp>

namespace clprim::conv {

// Same fields and order as conv_problem in problem.cl, all 64-bit, passed to kernels by value. "out" is the y side.
struct Problem {
    cl_long batch = 0, groups = 1;
    cl_long in_channels = 0, out_channels = 0;      // per group
    cl_long in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
    cl_long stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
    cl_long x_strides[5] = {}, y_strides[5] = {}, w_strides[5] = {};   // n, c, d, h, w and o, c, d, h, w

    cl_long taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    cl_long in_pixels() const { return in[0] * in[1] * in[2]; }
    cl_long out_pixels() const { return out[0] * out[1] * out[2]; }
};

// Same fields and order as epilogue in epilogue.cl.
struct Epilogue {
    cl_long has_bias = 0, activation = 0, accumulate = 0;
    cl_float alpha = 0, beta = 0;
};

struct Call {
    ConvPass pass = ConvPass::forward;
    Problem problem;
    DataType dtype = DataType::float32;
    Tensor x, w, y;      // sides of the ordinary convolution: forward writes y, data writes x, weight writes w
    Tensor bias;         // added to the channels of the result (forward and data passes); may be undefined
    Epilogue epilogue;
    Prepared* prepared = nullptr;   // of w

    const Tensor& result() const
    {
        return pass == ConvPass::forward ? y : pass == ConvPass::backward_data ? x : w;
    }
};

using Implementation = clprim::Implementation<Call>;   // one way to compute a pass

// All that decides the speed of a call, in one line.
std::string describe(const Call& call);

// The activation of what a product of matrices computes in place of a call; nothing if products have no such.
std::optional<Activation> product_activation(const Call& call);

// -D options for the dtype of a call, and for activations that other programs are built without.
std::string dtype_options(const Call& call);
std::string dtype_options(DataType dtype);

Rejection rejects_reference(const Call& call, const Device& device);
void run_reference(Queue& queue, const Call& call);
Rejection rejects_cpu_amx(const Call& call, const Device& device);
Rejection rejects_cpu_bfloat16(const Call& call, const Device& device);   // the same by vectors
void run_cpu_amx(Queue& queue, const Call& call);
Rejection rejects_cpu_amx_weight(const Call& call, const Device& device);
void run_cpu_amx_weight(Queue& queue, const Call& call);
Rejection cpu_amx_advises_against(const Call& call, const Device& device);
Rejection cpu_amx_weight_advises_against(const Call& call, const Device& device);
Rejection rejects_cpu_patches(const Call& call, const Device& device);
Rejection cpu_patches_advises_against(const Call& call, const Device& device);
void run_cpu_patches(Queue& queue, const Call& call);
void run_cpu_patches_weight(Queue& queue, const Call& call);
Rejection rejects_cpu_frames(const Call& call, const Device& device);
Rejection cpu_frames_advises_against(const Call& call, const Device& device);
void run_cpu_frames(Queue& queue, const Call& call);
Rejection rejects_cpu_channels(const Call& call, const Device& device);
Rejection cpu_channels_advises_against(const Call& call, const Device& device);
void run_cpu_channels(Queue& queue, const Call& call);
Rejection rejects_cpu_channels_bfloat16(const Call& call, const Device& device);
Rejection cpu_channels_bfloat16_advises_against(const Call& call, const Device& device);
void run_cpu_channels_bfloat16(Queue& queue, const Call& call);
Rejection rejects_cpu_grouped(const Call& call, const Device& device);
void run_cpu_grouped(Queue& queue, const Call& call);
void run_cpu_grouped_weight(Queue& queue, const Call& call);
Rejection rejects_cpu_channels_weight(const Call& call, const Device& device);
Rejection cpu_channels_weight_advises_against(const Call& call, const Device& device);
void run_cpu_channels_weight(Queue& queue, const Call& call);
Rejection rejects_cpu_winograd(const Call& call, const Device& device);
Rejection cpu_winograd_advises_against(const Call& call, const Device& device);
void run_cpu_winograd(Queue& queue, const Call& call);
Rejection rejects_cpu_implicit(const Call& call, const Device& device);
void run_cpu_implicit(Queue& queue, const Call& call);
void run_cpu_implicit_weight(Queue& queue, const Call& call);
Rejection rejects_cpu_depthwise(const Call& call, const Device& device);
Rejection cpu_depthwise_advises_against(const Call& call, const Device& device);
void run_cpu_depthwise(Queue& queue, const Call& call);
void run_cpu_depthwise_weight(Queue& queue, const Call& call);
Rejection rejects_gpu_direct(const Call& call, const Device& device);
void run_gpu_direct(Queue& queue, const Call& call);
void run_gpu_direct_weight(Queue& queue, const Call& call);
Space gpu_direct_weight_space(const Call& call, const Device& device);
void run_gpu_direct_weight_at(Queue& queue, const Call& call, const Point& point);
Rejection rejects_gpu_winograd(const Call& call, const Device& device);
CLPRIM_API Rejection gpu_winograd_advises_against(const Call& call, const Device& device);
void run_gpu_winograd(Queue& queue, const Call& call);
Space gpu_winograd_space(const Call& call, const Device& device);
void run_gpu_winograd_at(Queue& queue, const Call& call, const Point& point);
CLPRIM_API Rejection gpu_winograd_weight_advises_against(const Call& call, const Device& device);
void run_gpu_winograd_weight(Queue& queue, const Call& call);
Space gpu_winograd_weight_space(const Call& call, const Device& device);
void run_gpu_winograd_weight_at(Queue& queue, const Call& call, const Point& point);
Rejection rejects_gpu_implicit(const Call& call, const Device& device);
void run_gpu_implicit(Queue& queue, const Call& call);
Space gpu_implicit_space(const Call& call, const Device& device);
void run_gpu_implicit_at(Queue& queue, const Call& call, const Point& point);
void run_gpu_implicit_weight(Queue& queue, const Call& call);
Space gpu_implicit_weight_space(const Call& call, const Device& device);
void run_gpu_implicit_weight_at(Queue& queue, const Call& call, const Point& point);
CLPRIM_API Rejection rejects_gpu_matrix(const Call& call, const Device& device);
CLPRIM_API Rejection gpu_matrix_advises_against(const Call& call, const Device& device);
void run_gpu_matrix(Queue& queue, const Call& call);
CLPRIM_API Space gpu_matrix_space(const Call& call, const Device& device);
void run_gpu_matrix_at(Queue& queue, const Call& call, const Point& point);
void run_gpu_matrix_weight(Queue& queue, const Call& call);
Space gpu_matrix_weight_space(const Call& call, const Device& device);
void run_gpu_matrix_weight_at(Queue& queue, const Call& call, const Point& point);

}  // namespace clprim::conv
