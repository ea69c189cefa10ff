// Numbers that PyTorch converts to an operator's dtype, and refuses where they do not fit.
#pragma once

#include <array>
#include <cstddef>

#include <ATen/core/Tensor.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/Scalar.h>

namespace torch_ocl {

// The number as one of this dtype; booleans are whether it is not zero.
at::Scalar converted(const at::Scalar& number, at::ScalarType type);

// The bytes of the number as an element of any dtype that tensors are stored in, from the first on.
using ElementBytes = std::array<std::byte, 16>;
ElementBytes element_bytes(const at::Scalar& number, at::ScalarType type);

// Refuses what does not fit into the dtype that computes for `type`: float32 for numbers of 16 bits.
void check_fits(const at::Scalar& number, at::ScalarType type);

// The same for the dtype of two tensors, which the usual numbers need not ask for.
inline void check_fits(const at::Scalar& number, const at::Tensor& a, const at::Tensor& b)
{
    const bool usual = number.type() == at::kLong && number.toLong() >= 0 && number.toLong() <= 127;
    if (!usual)
        check_fits(number, at::result_type(a, b));
}

}  // namespace torch_ocl
