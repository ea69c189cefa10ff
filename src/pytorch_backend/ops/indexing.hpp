// What the indexing operators share.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorIterator.h>
#include <clprim/index.hpp>

#include <runtime/tensor_view.hpp>

namespace torch_ocl {

// A tensor as clprim sees it, with at least one dimension.
inline clprim::Tensor view_1d(const at::Tensor& tensor) { return view(tensor.dim() ? tensor : tensor.unsqueeze(0)); }

// An operand of an iterator: the iteration space as its shape.
inline clprim::Tensor operand(const at::TensorIteratorBase& iter, int arg)
{
    clprim::Tensor result = view(iter.tensor(arg));
    const std::size_t n = iter.ndim();
    const auto item = static_cast<std::int64_t>(iter.element_size(arg));
    result.shape.resize(n);
    result.strides.resize(n);
    for (std::size_t d = 0; d < n; ++d) {
        result.shape[n - 1 - d] = iter.shape()[d];
        result.strides[n - 1 - d] = iter.strides(arg)[d] / item;
    }
    return result;
}

// The axis of an operator that takes indices in [0, n) only: unlike x[index], most of PyTorch's refuse negative ones.
inline clprim::Along along(int64_t dim, std::string_view name)
{
    return {static_cast<std::size_t>(dim), clprim::NegativeIndex::refused, name};
}

// Writing through an index into memory that several elements share: PyTorch warns and writes.
inline void warn_of_expanded(const at::Tensor& self, const char* name, const char* example)
{
    if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
        TORCH_WARN("Use of ", name, " on expanded tensors is deprecated. Please clone() the tensor before performing "
                   "this operation. This also applies to advanced indexing e.g. ", example);
}

// Rows (slices along dimension 0) of a tensor, with the name of the operator that wants them for errors.
at::Tensor select_rows(std::string_view name, const at::Tensor& self, const at::Tensor& index);

inline void copy_unless_same(const at::Tensor& self, const at::Tensor& out)
{
    if (!self.is_same(out))
        out.copy_(self);
}

// Whether updates of float16 or bfloat16 had better be added to a float32 copy of `self`: a few long lines are walked,
// and rounded once at the end, where a CPU would have to sort them.
inline bool adds_to_float32(const at::Tensor& self, int64_t entries, int64_t updates)
{
    return c10::isReducedFloatingType(self.scalar_type()) && entries >= 256 && updates < 64 * entries &&
           self.numel() <= 64 * updates && self.is_non_overlapping_and_dense() &&
           current_queue(self).device().kind == clprim::DeviceKind::cpu;
}

// What scatter* and index_* write: `out` where `index` points along `dim`.
struct Target {
    const at::Tensor& out;
    int64_t dim;
    const at::Tensor& index;
    std::string_view name;

    clprim::Along axis() const { return along(at::maybe_wrap_dim(dim, out.dim()), name); }
};

// What the operator calls "sum", "prod", "mean", "amax" or "amin", or scatter "add" or "multiply".
clprim::IndexReduce reduction(std::string_view name);

// The value that a reduction leaves unchanged.
at::Scalar neutral(std::string_view reduce, at::ScalarType type);

// A scalar as a source: one element with strides 0.
at::Tensor expanded(const at::Scalar& value, const at::Tensor& like, at::IntArrayRef sizes);

// Complex numbers have no largest one.
void require_order(const at::Tensor& self, std::string_view reduce);

// In place, of "mean": what no entry reached has a count of 0 and stays.
void divide_by_count(const at::Tensor& sums, const at::Tensor& count);

}  // namespace torch_ocl
