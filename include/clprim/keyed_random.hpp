// Random numbers of keys that lie in tensors, without a generator: the same key gives the same numbers on every device.
//
// A key is two uint64 numbers, {seed, block}. Its stream is Philox-4x32-10 (clprim/random.hpp) keyed with the seed at
// counters block, block + 1, ..., four words of 32 bits each. This is how PyTorch's stateless generators
// (torch.func._random) define their streams.
#pragma once

#include <clprim/random.hpp>

CLPRIM_API_BEGIN
namespace clprim {

// New keys of old ones: out[i, k] is block first + i of the stream of keys[k], its four words as two numbers.
// keys is [n, 2], out [count, n, 2], both uint64 and contiguous.
void derive_keys(Queue& queue, const Tensor& keys, std::uint64_t first, const Tensor& out);
// The same for the one number that lies in `first` (uint64, one element); out is [n, 2].
void derive_keys(Queue& queue, const Tensor& keys, const Tensor& first, const Tensor& out);

// out[k, :] of the stream of keys[k]; out is [n, length], of floating point and contiguous, keys [n, 2].
// uniform: [a, b) of the low bits of one word (float64: of two) that the type holds. normal: mean a, standard deviation
// b, pairs after Box and Muller from two words (float64: four).
void keyed_fill(Queue& queue, const Tensor& out, const Tensor& keys, Distribution distribution, double a, double b);

}  // namespace clprim
CLPRIM_API_END
