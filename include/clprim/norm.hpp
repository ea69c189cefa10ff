// Normalisation layers: batch, layer, RMS and group norm, forward and backward.
//
// All of them keep sums in float32 (float64 for float64 data), take means before variances so that a large mean costs
// no digits, and give the same bits every run. An undefined Tensor means "absent" wherever a comment says optional.
// Errors: InvalidArgument for shapes, layouts or dtypes that do not fit.
#pragma once

#include <clprim/queue.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// Batch norm over x of shape [N, C, ...]:
//     y = (x - mean_c) / sqrt(var_c + eps) * weight_c + bias_c
// In training, mean and (biased) variance come from x and the running statistics move by `momentum` towards them (the
// variance unbiased); in evaluation the running statistics are used. Ioffe and Szegedy 2015.
// x, y and gradients share dtype, shape and a dense layout: row-major, or channels innermost (channels_last).
// weight, bias and the running statistics share one dtype of their own (mixed precision), shape [C], contiguous.
// save_mean and save_invstd are float32 (float64 for float64 x).
struct BatchNorm {
    Tensor x, y;
    Tensor weight, bias;                 // optional
    Tensor running_mean, running_var;    // optional in training
    Tensor save_mean, save_invstd;       // needed in training; written in evaluation, too, where given
    bool training = true;
    double momentum = 0.1, eps = 1e-5;
};
void batch_norm(Queue& queue, const BatchNorm& problem);

//     grad_bias = sum dy,  grad_weight = sum dy (x - mean) invstd
//     dx = weight invstd (dy - grad_bias / M - (x - mean) invstd grad_weight / M)      the last two in training only
struct BatchNormBackward {
    Tensor grad_output, x;
    Tensor weight;                       // optional
    Tensor mean, statistic;              // training: save_mean, save_invstd; evaluation: running_mean, running_var
    Tensor grad_input, grad_weight, grad_bias;   // optional each
    bool training = true;
    double eps = 1e-5;
};
void batch_norm_backward(Queue& queue, const BatchNormBackward& problem);

// What a batch norm in evaluation mode makes of the convolution before it, whose weights [C, ...] and bias [C] become
//     scaled = weight * factor,   shifted = (bias - mean) * factor + beta,   factor = gamma / sqrt(variance + eps)
// All share one dtype; any strides. The bias is optional.
struct BatchNormFold {
    Tensor weight, bias;
    Tensor gamma, beta, mean, variance;
    Tensor scaled, shifted;
    double eps = 1e-5;
};
void fold_batch_norm(Queue& queue, const BatchNormFold& problem);

// Layer norm of rows: x is [rows, n], contiguous, of any shape with that many elements;
//     y = (x - mean) rstd * weight + bias,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
// With `rms`, RMS norm: mean is 0 and there is no bias. Ba et al. 2016; Zhang and Sennrich 2019.
// weight and bias [n], optional, of one dtype; mean (not for rms) and rstd [rows], float32 (float64 for float64 x).
struct LayerNorm {
    Tensor x, y, weight, bias, mean, rstd;
    std::int64_t n = 1;
    bool rms = false;
    double eps = 1e-5;
};
void layer_norm(Queue& queue, const LayerNorm& problem);

// grad_input, grad_weight and grad_bias are optional each; mean and rstd are the forward's.
struct LayerNormBackward {
    Tensor grad_output, x, weight, mean, rstd;
    Tensor grad_input, grad_weight, grad_bias;
    std::int64_t n = 1;
    bool rms = false;
};
void layer_norm_backward(Queue& queue, const LayerNormBackward& problem);

// Group norm: x is [N, C, ...], contiguous; the C / groups channels of a group share mean and rstd (both [N, groups]),
// weight and bias (optional) are per channel. Wu and He 2018.
struct GroupNorm {
    Tensor x, y, weight, bias, mean, rstd;
    std::int64_t groups = 1;
    double eps = 1e-5;
};
void group_norm(Queue& queue, const GroupNorm& problem);
// Whether group_norm also takes x and y of shape [N, C, pixels] with the channels innermost, in two launches.
bool group_norm_takes_channels_last(const Device& device, std::int64_t channels);

struct GroupNormBackward {
    Tensor grad_output, x, weight, mean, rstd;
    Tensor grad_input, grad_weight, grad_bias;   // optional each
    std::int64_t groups = 1;
};
void group_norm_backward(Queue& queue, const GroupNormBackward& problem);

}  // namespace clprim
CLPRIM_API_END
