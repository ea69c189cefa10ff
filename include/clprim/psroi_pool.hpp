// Deformable position-sensitive RoI pooling (Dai et al., "Deformable Convolutional Networks", 2017), as in DCNv2.
//
// x [N, C, H, W], rois [K, 5] (image index, x1, y1, x2, y2), trans [K, 2 * classes, part_size, part_size] or undefined
// (no_trans), y and count [K, output_dim, pooled_size, pooled_size]. Every bin averages those of its sample_per_part^2
// samples that lie within half a pixel of the image; count says how many (a float tensor). The bin is shifted by
// trans * trans_std * box size. Channel: (output * group_size + gh) * group_size + gw of the bin's group (gh, gw).
//
// One dtype for all tensors: float32, float64, float16, bfloat16 (computed in float32). Any strides for x. Gradients
// have one owner each, without atomics. sample_per_part is at most 1024. A bad image index gives zeros and IndexError
// at the next synchronisation.
#pragma once

#include <clprim/context.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct DeformPSRoiPooling {
    bool no_trans = false;
    double spatial_scale = 1;
    std::int64_t output_dim = 1, group_size = 1, pooled_size = 1, part_size = 1, sample_per_part = 4;
    double trans_std = 0;
};

Dims deform_psroi_pooling_shape(const DeformPSRoiPooling& parameters, const Tensor& x, const Tensor& rois,
                                const Tensor& trans);

void deform_psroi_pooling(Queue& queue, const DeformPSRoiPooling& parameters, const Tensor& x, const Tensor& rois,
                          const Tensor& trans, const Tensor& y, const Tensor& count);

// grad_x as x, any strides; grad_trans as trans, undefined with no_trans. Both are overwritten.
void deform_psroi_pooling_backward(Queue& queue, const DeformPSRoiPooling& parameters, const Tensor& grad_y,
                                   const Tensor& x, const Tensor& rois, const Tensor& trans, const Tensor& count,
                                   const Tensor& grad_x, const Tensor& grad_trans);

}  // namespace clprim
CLPRIM_API_END
