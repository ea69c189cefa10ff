// What an operator applies to its result in the same pass. Each says which of these it takes and refuses the others.
#pragma once

#include <cstdint>

#include <clprim/export.hpp>

CLPRIM_API_BEGIN
namespace clprim {

enum class Activation : std::uint8_t {
    none,
    relu,
    gelu,           // v Phi(v)
    gelu_tanh,      // its approximation by tanh
    clip,           // within [alpha, beta]
    leaky_relu,     // v < 0 ? alpha v : v
    silu,           // v / (1 + e^-v)
    hard_swish,     // v min(max(v + 3, 0), 6) / 6
    hard_sigmoid,   // min(max(alpha v + beta, 0), 1)
    sigmoid,        // 1 / (1 + e^-v)
    tanh,
    relu6,          // within [0, 6]
};

}  // namespace clprim
CLPRIM_API_END
