// A copy's index space with as few axes as possible: axes of size 1 dropped, axes sorted so that axis 0 is the one with
// the smallest target stride, and neighbours merged where both tensors allow it.
#pragma once

#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

struct CopySpace {
    Dims shape, source, target;   // sizes and strides in elements, axis 0 innermost

    std::size_t rank() const { return shape.size(); }
    std::int64_t numel() const { return shape.product(); }
    std::size_t size(std::size_t axis) const { return static_cast<std::size_t>(axis < rank() ? shape[axis] : 1); }
    std::size_t outer() const   // elements of the axes from 2
    {
        std::size_t count = 1;
        for (std::size_t axis = 2; axis < rank(); ++axis)
            count *= size(axis);
        return count;
    }
    bool fits_32_bits() const;    // every offset and every count of elements, with room for rounding up
};

// `source` may be the strides of the target itself where there is no source (fills).
CopySpace collapse(const Dims& shape, const Dims& source, const Dims& target);

}  // namespace clprim
CLPRIM_API_END
