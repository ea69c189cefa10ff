// com.microsoft's products with weights of narrow floats in blocks: MatMulBlockQuantizedFp8Weight,
// MatMulBlockQuantizedFp4Weight.
#include <algorithm>
#include <functional>

#include <clprim/context.hpp>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// Checks A [..., k], and the scales of weights [n, k].
std::int64_t check_blocks(const Call& call, std::size_t scales, std::int64_t n, std::int64_t k, std::int64_t usual)
{
    const std::int64_t block = call.integer_attribute("block_size", usual);
    call.check(block > 0 && block < (1 << 30), "block_size is ", block);
    call.check(!call.shape(0).empty() && call.shape(0).back() == k, "A has shape ", to_string(call.shape(0)),
               ", expected [..., ", k, "]");
    const Dims expected{n, k / block + (k % block != 0)};
    call.check(call.shape(scales) == expected, "input ", scales, " has shape ", to_string(call.shape(scales)),
               ", expected ", to_string(expected));
    return block;
}

// What `make` makes of input 1, once if that and the scales never change.
Value weights(const Call& call, const std::string& key, bool scales_stay, const std::function<Tensor()>& make)
{
    Prepared* place = scales_stay ? call.prepared(1) : nullptr;
    return Value(place ? place->get(call.queue(), key, make) : make());
}

// Weights [n, k] times the scales of their blocks, in float32.
Value scaled(const Call& call, const Value& x, const Value& scales, std::int64_t block)
{
    return Compose(call)("DequantizeLinear", {x, scales}, {{"axis", std::int64_t{1}}, {"block_size", block}});
}

// As they lie, read as elements of another type of one byte.
Value read_as(const Call& call, const Tensor& bytes, ElementType type)
{
    call.check(bytes.dtype == DataType::uint8, "expected bytes, got ", name_of(bytes.dtype));
    return Value(bytes, type);
}

void with_bias(Call& call, const Value& y, std::size_t bias)
{
    const Compose op(call);
    const Value sum = call.has(bias) ? op("Add", {y, op.cast(call.input(bias), y.type())}) : y;
    call.output(0, op.cast(sum, call.type(0)));
}

// In float32, A too, rounded to as many digits as its scale gives it where there is one.
void fp8_product(Call& call)
{
    const Compose op(call);
    call.check(call.type(1) == ElementType::float8e4m3fn && call.shape(1).size() == 2, "B is ", name_of(call.type(1)),
               " ", to_string(call.shape(1)), ", expected float8e4m3fn [N, K]");
    const std::int64_t block = check_blocks(call, 2, call.shape(1)[0], call.shape(1)[1], 128);
    Value a = op.cast(call.input(0), ElementType::float32);
    if (call.has(3)) {
        call.check(call.input(3).numel() == 1, "a_scale has ", call.input(3).numel(), " elements");
        const Value scale = op.cast(call.input(3), ElementType::float32).reshaped({}, call.queue());
        const Value narrow = op("QuantizeLinear", {a, scale},
                                {{"output_dtype", static_cast<std::int64_t>(ElementType::float8e4m3fn)}});
        a = op("DequantizeLinear", {narrow, scale});
    }
    const Value b = weights(call, detail::concat("fp8 in blocks of ", block), call.prepared(2) != nullptr, [&] {
        return scaled(call, call.input(1), op.cast(call.input(2), ElementType::float32), block).device(call.queue());
    });
    with_bias(call, op("MatMul", {a, Value(b.device(call.queue()).transpose(0, 1))}), 4);
}

// Weights are rounded to A's type.
void fp4_product(Call& call)
{
    const Compose op(call);
    const Dims& packed = call.shape(1);
    call.check(packed.size() == 2 && call.type(1) == ElementType::uint8, "B is ", name_of(call.type(1)), " ",
               to_string(packed), ", expected uint8 [N, K / 2]");
    call.check(call.input(3).numel() == 1, "weight_scale_2 has ", call.input(3).numel(), " elements");
    const std::int64_t block = check_blocks(call, 2, packed[0], 2 * packed[1], 16);
    const bool stay = call.prepared(2) && call.prepared(3);
    const Value b = weights(call, detail::concat("nvfp4 in blocks of ", block), stay, [&] {
        const Value codes = read_as(call, unpacked(call, call.contiguous(1), 4), ElementType::float4e2m1),
                    each = op.cast(read_as(call, call.contiguous(2), ElementType::float8e4m3fn), ElementType::float32),
                    all = op.cast(call.input(3), ElementType::float32).reshaped({}, call.queue());
        return op.cast(scaled(call, codes, op("Mul", {each, all}), block), call.type(0)).device(call.queue());
    });
    with_bias(call, op("MatMul", {call.input(0), Value(b.device(call.queue()).transpose(0, 1))}), 5);
}

const OperatorRow contrib_float_block_rows[] = {
    {"MatMulBlockQuantizedFp8Weight", 1, fp8_product, nullptr, microsoft},
    {"MatMulBlockQuantizedFp4Weight", 1, fp4_product, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_float_block_operators() { return contrib_float_block_rows; }

}  // namespace clprim::onnx
