// Tensors whose equal positions are equal places in memory.
#pragma once

#include <clprim/tensor.hpp>

namespace clprim::detail {

// Strides of axes with one element say nothing, nor do those of tensors without any.
inline bool lie_alike(const Tensor& a, const Tensor& b)
{
    if (!(a.shape == b.shape))
        return false;
    for (std::size_t axis = 0; axis < a.shape.size(); ++axis)
        if (a.shape[axis] > 1 && a.strides[axis] != b.strides[axis] && a.numel() != 0)
            return false;
    return true;
}

}  // namespace clprim::detail
