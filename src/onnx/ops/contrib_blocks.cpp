// com.microsoft's products with block-quantised weights: MatMulNBits, MatMulFpQ4.
#include <algorithm>
#include <functional>
#include <optional>

#include <clprim/context.hpp>
#include <clprim/copy.hpp>
#include <clprim/quantized.hpp>

#include "onnx/four_bit_blocks.hpp"
#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

std::int64_t block_bits(const Call& call)
{
    const std::int64_t bits = call.integer_attribute("bits", 4);
    call.check(bits == 2 || bits == 4 || bits == 8, "bits is ", bits, ", expected 2, 4 or 8");
    return bits;
}

Tensor unpacked(const Call& call, const Tensor& packed, std::int64_t bits)
{
    if (bits == 8)
        return packed;
    const std::int64_t count = 8 / bits;
    Dims shape = packed.shape;
    shape.push_back(count);
    const Tensor bytes = call.allocate(shape, DataType::uint8);
    std::vector<Tensor> parts;
    std::string code;
    for (std::int64_t i = 0; i < count; ++i) {
        Tensor part = bytes.slice(packed.dim(), i, i + 1);
        part.shape.resize(packed.dim());
        part.strides.resize(packed.dim());
        parts.push_back(part);
        code += detail::concat("y", i, " = ((int)x0 >> ", i * bits, ") & ", (1 << bits) - 1, ";");
    }
    pointwise(call.queue(), std::span(&packed, 1), parts, {}, code);
    shape.resize(packed.dim());
    shape[packed.dim() - 1] *= count;
    return bytes.reshape(shape);
}

namespace {

// B [n, blocks, bytes] with scales and zero points of each block.
struct BlockWeights {
    std::int64_t n, k, blocks, block, bits;
    Tensor packed, scales, zeros;            // zeros [n, ...]: packed bytes, or numbers; undefined: the middle

    double middle() const { return static_cast<double>(1 << (bits - 1)); }
};

BlockWeights block_weights(const Call& call)
{
    BlockWeights w{};
    w.n = call.attribute<std::int64_t>("N");
    w.k = call.attribute<std::int64_t>("K");
    w.block = call.attribute<std::int64_t>("block_size");
    w.bits = block_bits(call);
    call.check(w.n > 0 && w.k > 0 && w.n < (1 << 30) && w.k < (1 << 30) && w.block >= 8 && w.block < (1 << 30),
               "N is ", w.n, ", K ", w.k, " and block_size ", w.block);
    call.check(call.integer_attribute("weight_prepacked", 0) == 0, "weight_prepacked is not supported");
    call.check(!call.has(4), "g_idx is not supported");
    w.blocks = (w.k + w.block - 1) / w.block;
    const std::int64_t bytes = w.block * w.bits / 8;
    w.packed = call.contiguous(1);
    call.check(w.packed.dtype == DataType::uint8 && w.packed.numel() == w.n * w.blocks * bytes, "B is ",
               name_of(w.packed.dtype), " ", to_string(w.packed.shape), ", expected uint8 [", w.n, ", ", w.blocks, ", ",
               bytes, "]");
    w.packed = w.packed.reshape({w.n, w.blocks, bytes});
    w.scales = call.contiguous(2);
    call.check(w.scales.numel() == w.n * w.blocks, "scales have shape ", to_string(w.scales.shape), ", expected [", w.n,
               ", ", w.blocks, "]");
    w.scales = w.scales.reshape({w.n, w.blocks, 1});
    if (!call.has(3))
        return w;
    const Tensor zeros = call.contiguous(3);
    const bool is_packed = zeros.dtype == DataType::uint8;
    const std::int64_t row = is_packed ? (w.blocks * w.bits + 7) / 8 : w.blocks;
    call.check(zeros.numel() == w.n * row, "zero_points have shape ", to_string(zeros.shape), ", expected [", w.n, ", ",
               row, "]");
    w.zeros = zeros.reshape({w.n, row});
    return w;
}

// [n, blocks, 1], bytes or the scales' type.
Tensor zero_points(const Call& call, const BlockWeights& w)
{
    Tensor zeros = w.zeros;
    if (zeros.dtype == DataType::uint8)
        zeros = unpacked(call, zeros, w.bits).slice(1, 0, w.blocks);
    zeros.shape = {w.n, w.blocks, 1};
    zeros.strides = {zeros.stride(0), zeros.stride(1), 0};
    return zeros;
}

// The weights as numbers of A's type, [n, k].
Tensor dequantized(const Call& call, const BlockWeights& w, DataType type)
{
    const Tensor whole = call.allocate({w.n, w.blocks, w.block}, type);
    const Tensor bytes = unpacked(call, w.packed, w.bits);
    std::vector<Tensor> inputs{bytes, w.scales};
    if (w.zeros.defined())
        inputs.push_back(zero_points(call, w));
    pointwise(call.queue(), inputs, std::span(&whole, 1), std::array{Scalar(w.middle())},
              w.zeros.defined() ? "y0 = ((T)x0 - (T)x2) * x1;" : "y0 = ((T)x0 - w0) * x1;");
    return whole.reshape({w.n, w.blocks * w.block}).slice(1, 0, w.k);
}

// The same for the kernels of products with such weights, where they have one for these: k in whole blocks of 32 or a
// multiple, 4 or 8 bits. What the kernels read is made once of constants.
std::optional<QuantizedWeights> kernel_weights(const Call& call, const BlockWeights& w, DataType type, Inputs inputs)
{
    if ((w.bits != 4 && w.bits != 8) || w.block % 32 != 0 || w.k % w.block != 0 || type == DataType::float64)
        return std::nullopt;
    const auto kept = [&](std::size_t i, const std::string& key, const std::function<Tensor()>& make) {
        Prepared* place = call.prepared(i);
        return place ? place->get(call.queue(), key, make) : make();
    };
    // CPUs read the scales of neighbouring outputs together, but beside bytes of A those of an output.
    const bool by_output = call.queue().device().kind != DeviceKind::cpu || inputs == Inputs::bytes;
    const auto by_group = [&](const Tensor& t) {
        const Tensor lines = t.reshape({w.n, w.blocks}).transpose(0, 1);
        if (by_output)
            return lines;
        const Tensor copied = call.allocate(lines.shape, lines.dtype);
        copy(call.queue(), lines, copied);
        return copied;
    };
    const auto elementwise = [&](std::vector<Tensor> inputs, const Dims& shape, DataType result, const char* code) {
        const Tensor y = call.allocate(shape, result);
        pointwise(call.queue(), inputs, std::span(&y, 1), std::array{Scalar(w.middle())}, code);
        return y;
    };
    const std::string key = detail::concat("nbits ", w.bits, " ", name_of(type), by_output ? " by output" : "");
    QuantizedWeights result;
    result.bits = static_cast<int>(w.bits);
    result.group = w.block;
    result.values = kept(1, key, [&] {
        const Tensor bytes = w.packed.reshape({w.n, w.k * w.bits / 8});
        if (w.bits == 8)
            return elementwise({bytes}, bytes.shape, DataType::int8, "y0 = (int)x0 - 128;");
        const Tensor packed = call.allocate(bytes.shape, DataType::uint8);
        pack_int4(call.queue(), bytes, packed, false);
        return packed;
    });
    result.scales = kept(2, key, [&] { return by_group(converted(call, w.scales, type)); });
    // A zero point z is an offset of (middle - z) scale.
    const auto offsets = [&] {
        return by_group(elementwise({w.scales, zero_points(call, w)}, {w.n, w.blocks, 1}, type,
                                    "y0 = (w0 - (T)x1) * x0;"));
    };
    if (w.zeros.defined())
        result.zeros = call.prepared(2) ? kept(3, key, offsets) : offsets();
    return result;
}

void matmul_nbits(Call& call)
{
    const Compose op(call);
    const BlockWeights w = block_weights(call);
    const Tensor a = call.contiguous(0);
    call.check(a.dim() >= 1 && a.shape.back() == w.k && is_floating_point(a.dtype), "A is ", name_of(a.dtype), " ",
               to_string(a.shape), ", expected floating point with ", w.k, " columns");
    const Tensor rows = a.reshape({a.numel() / w.k, w.k});
    Value y;
    // Levels from 4 on let A be rounded to bytes.
    const std::int64_t level = call.integer_attribute("accuracy_level", 0);
    const Inputs inputs = level >= 4 ? Inputs::bytes : Inputs::exact;
    if (const auto weights = kernel_weights(call, w, a.dtype, inputs)) {
        const Tensor product = call.allocate({rows.size(0), w.n}, a.dtype);
        quantized_matmul(call.queue(), rows, *weights, product, inputs);
        y = Value(product);
    } else {
        y = op("MatMul", {Value(rows), Value(dequantized(call, w, a.dtype).transpose(0, 1))});
    }
    if (call.has(5))
        y = op("Add", {y, call.input(5)});
    Dims shape = a.shape;
    shape[a.dim() - 1] = w.n;
    call.output(0, y.reshaped(shape, call.queue()));
}

// Constant weights are MatMulNBits' by now (simplify.cpp). Others come to the host.
void matmul_fpq4(Call& call)
{
    const Compose op(call);
    const auto shape = call.ints(2);
    call.check(shape.size() == 2, "B_shape has ", shape.size(), " elements, expected 2");
    const FourBitBlocks blocks{shape[0], shape[1], call.integer_attribute("blk_quant_type", 1)};
    call.check(blocks.valid(), "blk_quant_type is ", blocks.type, " (expected 0 or 1) and B_shape [", blocks.k, ", ",
               blocks.n, "]");
    call.check(call.type(1) == ElementType::uint8 && call.input(1).numel() == blocks.bytes(), "B is ",
               name_of(call.type(1)), " ", to_string(call.shape(1)), ", expected uint8 [", blocks.bytes(), "]");
    const ApartBlocks b = apart(blocks, call.input(1).host<std::uint8_t>(call.queue()));
    call.output(0, op("com.microsoft.MatMulNBits", {call.input(0), b.values, b.scales, b.zeros},
                      {{"K", blocks.k}, {"N", blocks.n}, {"block_size", FourBitBlocks::length}}));
}

const OperatorRow contrib_block_rows[] = {
    {"MatMulNBits", 1, matmul_nbits, nullptr, microsoft},
    {"MatMulFpQ4", 1, matmul_fpq4, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_block_operators() { return contrib_block_rows; }

}  // namespace clprim::onnx
