// Lists of tensors as clprim sees them.
#pragma once

#include <ATen/core/Tensor.h>
#include <clprim/optim.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {

inline clprim::TensorList views(at::TensorList tensors)
{
    clprim::TensorList result;
    result.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors)
        result.push_back(view(tensor));
    return result;
}

}  // namespace torch_ocl
