// Other shapes over the same memory.
#pragma once

#include <optional>

#include <clprim/tensor.hpp>

namespace clprim::detail {

// Strides that show the elements of a tensor in another shape of as many elements, if memory lets them: axes that lie
// behind each other without gaps may be merged and split at will.
std::optional<Dims> view_strides(const Tensor& tensor, const Dims& shape);

}  // namespace clprim::detail
