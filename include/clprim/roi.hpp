// Pooling over regions of interest, forward and backward: RoI align, RoI pool and their position-sensitive forms, with
// torchvision's arithmetic.
//
// x is [N, C, H, W]; rois is [K, 5]: image index, x1, y1, x2, y2 in image coordinates, scaled by `spatial_scale`.
// y is [K, C, PH, PW] or, position-sensitive, [K, C / (PH * PW), PH, PW].
//
//     align      mean of sampling_ratio^2 bilinear samples per bin (He et al. 2017); sampling_ratio <= 0 takes
//                ceil(bin size) samples; `aligned` shifts the box by half a pixel
//     pool       maximum of each bin of the rounded box (Girshick 2015); argmax [K, C, PH, PW] int32 for backward
//     ps align   as align with channel (c, ph, pw) per bin (Dai et al. 2016); channel_mapping int32
//     ps pool    mean of each bin of the rounded box, channel per bin
//
// x, rois and y share one dtype: float32, float64, float16 or bfloat16 (computed in float32). Any strides for x, y and
// gradients. A region whose image index is outside of the batch gives zeros and no gradient; the index is reported as
// IndexError at the next synchronisation. Gradients have one owner per plane and band of rows, who adds in a fixed
// order: no atomics, the same bits every run.
#pragma once

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class RoiMethod { align, pool, ps_align, ps_pool };

struct RoiPooling {
    RoiMethod method = RoiMethod::align;
    double spatial_scale = 1;
    std::int64_t pooled_height = 1, pooled_width = 1;
    std::int64_t sampling_ratio = -1;   // align methods
    bool aligned = false;               // align only
    bool largest = false;               // align, forward only: of all weighted corners the largest instead of the mean
};

// Shape of y. Throws InvalidArgument in torchvision's words for bad arguments.
Dims roi_pooling_shape(const RoiPooling& parameters, const Tensor& x, const Tensor& rois);

// `indices` (int32, contiguous, shape of y) receives argmax or the channel mapping; undefined for align.
void roi_pooling(Queue& queue, const RoiPooling& parameters, const Tensor& x, const Tensor& rois, const Tensor& y,
                 const Tensor& indices);

// grad_x: [N, C, H, W], any strides, overwritten. `argmax` for pool only. grad_y, rois and grad_x share one dtype.
void roi_pooling_backward(Queue& queue, const RoiPooling& parameters, const Tensor& grad_y, const Tensor& rois,
                          const Tensor& argmax, const Tensor& grad_x);

}  // namespace clprim
CLPRIM_API_END
