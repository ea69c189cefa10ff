// From PyTorch's dimensions and outputs to clprim's rows of reductions.
#pragma once

#include <bitset>
#include <initializer_list>

#include <ATen/core/Tensor.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <clprim/reduce.hpp>

namespace torch_ocl {

using DimMask = std::bitset<64>;

// The dimensions that are reduced: all for an absent or empty list. Throws IndexError for a bad one.
DimMask reduced_dims(at::OptionalIntArrayRef dims, int64_t ndim);
DimMask reduced_dim(std::optional<int64_t> dim, int64_t ndim);
// Shape of the result.
c10::DimVector reduced_shape(const at::Tensor& self, const DimMask& mask, bool keepdim);

// Enqueues a row over `self` (and further inputs of its shape) into outputs that have the reduced shape, with or
// without the reduced dimensions; accumulated in the compute type of `common`.
struct Reduction {
    const clprim::ReduceRow& row;
    DimMask mask;
    at::ScalarType common;
    std::initializer_list<clprim::Scalar> scalars = {};
};
using Tensors = std::initializer_list<std::reference_wrapper<const at::Tensor>>;
void launch(const Reduction& reduction, Tensors inputs, Tensors outputs);

#define CLPRIM_REDUCE_ROW(name)                                                                                        \
    ([]() -> const clprim::ReduceRow& {                                                                                \
        static const clprim::ReduceRow& row = clprim::reduce_row(name);                                                \
        return row;                                                                                                    \
    }())

}  // namespace torch_ocl
