// Results that share memory with what a kernel reads.
#pragma once

#include <initializer_list>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

namespace torch_ocl {

// Whether two tensors have, or may have, elements in common.
inline bool shares_memory(const at::Tensor& a, const at::TensorImpl& b)
{
    const at::MemOverlapStatus status = at::get_overlap_status(a.unsafeGetTensorImpl(), &b);
    return status == at::MemOverlapStatus::TooHard ? a.storage().is_alias_of(b.storage())
                                                   : status != at::MemOverlapStatus::No;
}

inline bool shares_memory(const at::Tensor& out,
                          std::initializer_list<std::reference_wrapper<const at::Tensor>> sources)
{
    for (const at::Tensor& source : sources)
        if (shares_memory(out, *source.unsafeGetTensorImpl()))
            return true;
    return false;
}

}  // namespace torch_ocl
