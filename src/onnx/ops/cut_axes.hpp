// Tensors as a Reshape that cuts their leading axes leaves them, without a copy.
#pragma once

#include <optional>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

// The sizes that a Reshape gives; nothing where it fails, or the host does not know them.
std::optional<Dims> sizes_of_reshape(const Call& call, std::size_t input, const Dims& from);

// Of each axis but the last two, how many axes of another shape make it up; nothing where that has other last axes, or
// an axis of it lies in two of these.
using Cuts = std::vector<std::size_t>;
std::optional<Cuts> cuts_into(const Dims& from, const Dims& to);

// The view of t; axes of one element, along which it is broadcast, become such.
Tensor cut(const Tensor& t, const Cuts& cuts, const Dims& to);

// With leading axes of one element, up to `dims` axes.
Tensor with_axes(const Tensor& t, std::size_t dims);

}  // namespace clprim::onnx
