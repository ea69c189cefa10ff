// Group norm of few large groups on GPUs (gpu_group_norm.cl).
#pragma once

#include <clprim/norm.hpp>

#include <kernels/team.hpp>

namespace clprim::detail {

struct GroupedShape {
    std::int64_t samples, groups, channels, inner;   // channels of a group
};

// Whether a work-group for each group would leave so much of the device idle that parts pay for one more launch.
bool gpu_group_norm_pays(const Device& device, const GroupedShape& shape, Team team);
void gpu_group_norm(Queue& queue, const GroupNorm& p, const GroupedShape& shape, DataType weight, Team team);
void gpu_group_norm_backward(Queue& queue, const GroupNormBackward& p, const GroupedShape& shape, DataType weight,
                             Team team);

}  // namespace clprim::detail
