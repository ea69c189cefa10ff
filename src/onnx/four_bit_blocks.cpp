#include "onnx/four_bit_blocks.hpp"

#include <cstring>

#include <clprim/error.hpp>

namespace clprim::onnx {

ApartBlocks apart(const FourBitBlocks& blocks, std::span<const std::uint8_t> bytes)
{
    require(blocks.valid() && static_cast<std::int64_t>(bytes.size()) == blocks.bytes(), "weights [", blocks.k, ", ",
            blocks.n, "] of blk_quant_type ", blocks.type, " are not ", bytes.size(), " bytes");
    constexpr std::size_t half = FourBitBlocks::length / 2;
    const Dims shape{blocks.n, blocks.along()};
    ApartBlocks result{Value::zeros(ElementType::uint8, {blocks.n, blocks.along(), half}),
                       Value::zeros(ElementType::float32, shape), {}};
    const auto scales = result.scales.mutable_host<float>();
    std::uint8_t* to = result.values.mutable_host<std::uint8_t>().data();
    std::span<float> zeros;
    if (blocks.type == 1) {
        result.zeros = Value::zeros(ElementType::float32, shape);
        zeros = result.zeros.mutable_host<float>();
    }
    const std::uint8_t* from = bytes.data();
    for (std::size_t block = 0; block < scales.size(); ++block, from += half, to += half) {
        std::memcpy(&scales[block], from, sizeof(float));
        from += sizeof(float);
        if (blocks.type == 1)
            zeros[block] = *from++;
        for (std::size_t i = 0; i < half; i += 2) {           // there neighbours share a byte
            to[i / 2] = static_cast<std::uint8_t>((from[i] & 15) | (from[i + 1] & 15) << 4);
            to[half / 2 + i / 2] = static_cast<std::uint8_t>(from[i] >> 4 | (from[i + 1] & 240));
        }
    }
    return result;
}

}  // namespace clprim::onnx
