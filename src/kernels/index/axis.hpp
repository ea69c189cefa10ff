// How kernels take an indexed axis (kernels/index/axis.cl).
#pragma once

#include <clprim/index.hpp>

namespace clprim {

struct AxisArgument {
    cl_long lowest, size, stride;

    // `factor`: how many elements the kernel moves as one.
    explicit AxisArgument(const IndexedAxis& axis, int factor = 1)
        : lowest(axis.negative == NegativeIndex::from_end && axis.size >= 0 ? -axis.size : 0), size(axis.size),
          stride(axis.stride / factor)
    {
    }
};

}  // namespace clprim
