// Weights of com.microsoft's MatMulFpQ4.
#pragma once

#include <cstdint>
#include <span>

#include <clprim/value.hpp>

namespace clprim::onnx {

// A matrix [k, n]: column after column, each in blocks of 32 numbers along k, of which the last may be filled up. A
// block is its scale (float32), its zero point (a byte, of type 1 alone; else 8) and 16 bytes, of which byte i has
// number i in its low bits and number i + 16 in its high ones.
struct FourBitBlocks {
    std::int64_t k = 0, n = 0, type = 1;
    static constexpr std::int64_t length = 32;

    bool valid() const { return k > 0 && n > 0 && k < (1 << 30) && n < (1 << 30) && (type == 0 || type == 1); }
    std::int64_t along() const { return (k + length - 1) / length; }
    std::int64_t bytes() const { return n * along() * (length / 2 + 4 + type); }
};

// The same as MatMulNBits has them in inputs 1 to 3, zero points as numbers.
struct ApartBlocks {
    Value values, scales, zeros;       // [n, along, 16], [n, along], of type 1 [n, along]
};
ApartBlocks apart(const FourBitBlocks& blocks, std::span<const std::uint8_t> bytes);

}  // namespace clprim::onnx
