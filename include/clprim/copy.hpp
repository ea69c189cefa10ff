// Copies between tensors of any strides and dtypes, and fills.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include <clprim/queue.hpp>
#include <clprim/tensor.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// What a copy does to each element on the way, after the conversion to the target's dtype.
struct CopyOptions {
    bool conjugate = false;   // complex targets only; else without effect
    bool negate = false;      // not for boolean
};

// target[i] = source[i] for every index i of the common shape. Element types convert as PyTorch's do: towards zero from
// floating point to integers, != 0 to boolean, the real part of a complex number, imaginary part 0 of a real one.
// Source and target must not overlap, unless they are the same elements in the same order.
// Throws InvalidArgument for different shapes or devices.
void copy(Queue& queue, const Tensor& source, const Tensor& target, const CopyOptions& options = {});

// Writes one element, given as its bytes in memory, to every position of the target.
void fill(Queue& queue, const Tensor& target, std::span<const std::byte> element);

// The same from a number, converted to the target's dtype.
void fill(Queue& queue, const Tensor& target, double value);

// The bytes of a number as an element of that type, as in memory.
std::vector<std::byte> element_bytes(DataType type, std::complex<double> value);

}  // namespace clprim
CLPRIM_API_END
