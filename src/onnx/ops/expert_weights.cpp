#include "onnx/ops/expert_weights.hpp"

#include <clprim/context.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

Value of_expert(const Call& call, std::size_t input, std::int64_t expert)
{
    if (!call.has(input))
        return {};
    const Tensor all = call.contiguous(input);
    call.check(all.dim() > 1 && expert < all.size(0), "input ", input, " has shape ", to_string(all.shape),
               ", which has no expert ", expert);
    return Value(all.slice(0, expert, expert + 1)).reshaped(Dims(std::span<const std::int64_t>(all.shape).subspan(1)),
                                                             call.queue());
}

namespace {

// Inputs of a layer of QMoE: bytes, scales; zero points come behind all layers.
struct QuantizedLayer {
    std::size_t bytes, scales, zeros;
    const char* bits;
};
constexpr QuantizedLayer quantized_layers[] = {{none, none, none, ""},
                                               {2, 3, 11, "fc1_expert_weight_bits"},
                                               {5, 6, 12, "fc2_expert_weight_bits"},
                                               {8, 9, 13, "fc3_expert_weight_bits"}};

// Three bits each, the lowest first across the bytes of a row.
Tensor three_bits(const Call& call, const Tensor& packed)
{
    const std::int64_t rows = packed.size(0), groups = packed.size(1) / 3;
    call.check(packed.size(1) % 3 == 0, "rows of ", packed.size(1), " bytes do not hold eights of three bits");
    const Tensor result = call.allocate({rows, groups, 8}, DataType::uint8), bytes = packed.reshape({rows, groups, 3});
    std::vector<Tensor> inputs, outputs;
    std::string code = "int all = (int)x0 | (int)x1 << 8 | (int)x2 << 16;";
    for (std::int64_t i = 0; i < 3; ++i)
        inputs.push_back(bytes.slice(2, i, i + 1));
    for (std::int64_t i = 0; i < 8; ++i) {
        outputs.push_back(result.slice(2, i, i + 1));
        code += detail::concat("y", i, " = all >> ", 3 * i, " & 7;");
    }
    pointwise(call.queue(), inputs, outputs, {}, code);
    return result.reshape({rows, 8 * groups});
}

// [out, in] in float32.
Value integer_expert(const Call& call, std::size_t layer, std::int64_t expert)
{
    const QuantizedLayer& at = quantized_layers[layer];
    const std::int64_t bits = call.integer_attribute(at.bits, call.integer_attribute("expert_weight_bits", 4));
    call.check(bits == 2 || bits == 3 || bits == 4 || bits == 8, "weights of ", bits,
               " bits are not supported, expected 2, 3, 4 or 8");
    const Tensor packed = of_expert(call, at.bytes, expert).device(call.queue());
    call.check(packed.dim() == 2 && packed.dtype == DataType::uint8 && call.has(at.scales), "fc", layer,
               " has no bytes [experts, out, in] or no scales");
    const Tensor bytes = bits == 3 ? three_bits(call, packed) : unpacked(call, packed, bits),
                 scales = of_expert(call, at.scales, expert).device(call.queue());
    const std::int64_t out = bytes.size(0), in = bytes.size(1), blocks = scales.dim() == 2 ? scales.size(1) : 1;
    call.check(scales.size(0) == out && blocks > 0 && in % blocks == 0, "scales of fc", layer, " have shape ",
               to_string(scales.shape), " for weights ", to_string(bytes.shape));
    const Tensor whole = call.allocate({out, blocks, in / blocks}, DataType::float32);
    std::vector<Tensor> inputs{bytes.reshape(whole.shape), scales.reshape({out, blocks, 1})};
    if (call.has(at.zeros) && bits != 3) {           // which must be the middle where there are three bits
        const Tensor zeros = unpacked(call, of_expert(call, at.zeros, expert).device(call.queue()), bits);
        const bool by_block = zeros.dim() == 2;
        call.check(by_block ? zeros.size(0) == out && zeros.size(1) >= blocks : zeros.size(0) >= out && blocks == 1,
                   "zero points of fc", layer, " have shape ", to_string(zeros.shape), " for weights ",
                   to_string(bytes.shape));
        const Tensor each = by_block ? zeros.slice(1, 0, blocks) : zeros.slice(0, 0, out);
        inputs.push_back({each.memory, each.offset, each.dtype, {out, blocks, 1},
                          {each.stride(0), by_block ? each.stride(1) : 0, 0}});
    }
    pointwise(call.queue(), inputs, std::span(&whole, 1), std::array{Scalar(std::int64_t{1} << (bits - 1))},
              inputs.size() == 3 ? "y0 = ((T)x0 - (T)x2) * x1;" : "y0 = ((T)x0 - w0) * x1;");
    return Value(whole.reshape({out, in}));
}

// Floats of eight bits with a scale for each square of `block_size`, or one for all (inputs 15 and 16).
Value fp8_expert(const Call& call, std::size_t layer, std::int64_t expert)
{
    const Compose op(call);
    const QuantizedLayer& at = quantized_layers[layer];
    call.check(call.has(at.bytes) && call.type(at.bytes) == ElementType::float8e4m3fn &&
                   call.shape(at.bytes).size() == 3,
               "fc", layer, " is not float8e4m3fn [experts, out, in]");
    call.check(!call.has(at.zeros), "zero points are for integers");
    const Tensor bytes = of_expert(call, at.bytes, expert).device(call.queue());
    const Value numbers(bytes, ElementType::float8e4m3fn);
    const std::int64_t block = call.integer_attribute("block_size", 0), out = bytes.size(0), in = bytes.size(1);
    if (block <= 0) {
        const std::size_t global = 14 + layer;
        call.check(layer < 3 && call.has(global) && call.input(global).numel() == call.shape(at.bytes)[0],
                   "fc", layer, " has no scale for each expert");
        const Value scales = op.cast(call.input(global), ElementType::float32);
        return op("Mul", {op.cast(numbers, ElementType::float32), op("Gather", {scales, Value::scalar(expert)})});
    }
    call.check(block < (1 << 30), "block_size is ", block);
    const auto count = [&](std::int64_t size) { return (size + block - 1) / block; };
    const Value scales = of_expert(call, at.scales, expert);
    call.check(!scales.is_none() && scales.shape() == Dims{count(out), count(in)}, "scales of fc", layer,
               " have not the shape [experts, ", count(out), ", ", count(in), "]");
    std::vector<std::int64_t> row_of;
    for (std::int64_t row = 0; row < out; ++row)
        row_of.push_back(row / block);
    const Value by_row = op("Gather", {op.cast(scales, ElementType::float32), Value::ints(row_of)});
    return op("DequantizeLinear", {numbers, by_row}, {{"axis", std::int64_t{1}}, {"block_size", block}});
}

}  // namespace

Value quantized_expert(const Call& call, std::size_t layer, std::int64_t expert)
{
    const std::string type = call.string_attribute("quant_type", "int");
    call.check(type == "int" || type == "fp8", "quant_type is '", type, "', expected int or fp8");
    return type == "fp8" ? fp8_expert(call, layer, expert) : integer_expert(call, layer, expert);
}

}  // namespace clprim::onnx
