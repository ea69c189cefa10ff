// com.microsoft's fusions around products with block-quantised weights: MatMulNBitsMlp, MatMulNBitsQkv,
// MatMulNBitsQLoRA.
#include <algorithm>

#include "onnx/ops/compose.hpp"
#include "onnx/ops/contrib.hpp"
#include "onnx/ops/families.hpp"
#include "onnx/ops/support.hpp"

namespace clprim::onnx {

namespace {

// A, or its norm where there is a scale for it (input 2), with what was added to it before (input 1).
struct Normalised {
    Value rows, sum;
};

Normalised normalised(const Call& call, float usual_epsilon)
{
    const Compose op(call);
    call.check(call.has(2) || !call.has(1), "skip is there, but no norm_scale");
    if (!call.has(2))
        return {call.input(0), call.input(0)};
    const float epsilon = call.float_attribute("epsilon", usual_epsilon);
    if (!call.has(1))
        return {op("SimplifiedLayerNormalization", {call.input(0), call.input(2)},
                   {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}),
                call.input(0)};
    const auto both = run_operator(call, "com.microsoft.SkipSimplifiedLayerNormalization",
                                   {call.input(0), call.input(1), call.input(2)}, {{"epsilon", epsilon}}, 4);
    return {both[0], both[3]};
}

// How weights are quantised, and the width of their product.
struct Blocks {
    std::int64_t k, n, bits, size, level;

    static Blocks of(const Call& call, const char* width, std::int64_t usual_size = 0)
    {
        const std::int64_t size = usual_size ? call.integer_attribute("block_size", usual_size)
                                             : call.attribute<std::int64_t>("block_size");
        return {call.attribute<std::int64_t>("K"), call.attribute<std::int64_t>(width),
                call.integer_attribute("bits", 4), size, call.integer_attribute("accuracy_level", 0)};
    }
};

// x with the weights, scales and, unless there is `none`, bias that are inputs of the call.
Value product(const Call& call, const Value& x, std::initializer_list<std::size_t> inputs, const Blocks& blocks)
{
    std::vector<std::size_t> weights(inputs);
    weights.insert(weights.begin() + 2, {none, none});
    return Compose(call).with_inputs("com.microsoft.MatMulNBits", x, weights,
                                     {{"K", blocks.k}, {"N", blocks.n}, {"bits", blocks.bits},
                                      {"block_size", blocks.size}, {"accuracy_level", blocks.level}});
}

void matmul_nbits_mlp(Call& call)
{
    const std::string activation = call.attribute<std::string>("activation");
    call.check(activation == "silu" || activation == "swish", "activation is '", activation,
               "', expected silu or swish");
    const Blocks blocks = Blocks::of(call, "N");
    const Normalised a = normalised(call, 1e-5F);
    const Tensor parts[] = {product(call, a.rows, {3, 4, 5}, blocks).device(call.queue()),
                            product(call, a.rows, {6, 7, 8}, blocks).device(call.queue())};
    const Tensor y = call.output_tensor(0, parts[0].shape, call.type(0));
    if (y.numel())
        pointwise(call.queue(), parts, std::span(&y, 1), {}, "y0 = x0 / (1 + exp(-x0)) * x1;");
    if (call.wants(1))
        call.output(1, a.sum);
}

void matmul_nbits_qkv(Call& call)
{
    call.check(call.has(2), "norm_scale is missing");
    const Blocks queries = Blocks::of(call, "Nq"), others = Blocks::of(call, "Nkv");
    const Normalised a = normalised(call, 1e-6F);
    for (std::size_t i = 0; i < 3; ++i)
        if (call.wants(i))
            call.output(i, product(call, a.rows, {3 + 3 * i, 4 + 3 * i, 5 + 3 * i}, i == 0 ? queries : others));
    if (call.wants(3))
        call.output(3, a.sum);
}

// The product, and that of two narrow matrices which may change from run to run, and be empty.
void matmul_nbits_qlora(Call& call)
{
    const Compose op(call);
    const Blocks base = Blocks::of(call, "N", 32);
    const Value whole = product(call, call.input(0), {1, 2, none}, base);
    if (call.input(5).numel() == 0)
        return call.output(0, whole);
    call.check(call.shape(4).size() == 2 && call.shape(4)[0] > 0, "lora_A_scales have shape ",
               to_string(call.shape(4)), ", expected [rank, blocks]");
    const std::int64_t rank = call.shape(4)[0];
    const Blocks down{base.k, rank, call.integer_attribute("lora_bits", 8),
                      call.integer_attribute("lora_block_size", 32), base.level},
        up{rank, base.n, down.bits, down.size, 0};
    Value narrow;
    if (call.input(3).numel() == 0) {
        Dims shape = call.shape(0);
        shape[shape.size() - 1] = rank;
        narrow = op("Expand", {op.number(0, call.type(0)), Value::ints(std::span(shape.begin(), shape.size()))});
    } else {
        narrow = product(call, call.input(0), {3, 4, none}, down);
    }
    call.output(0, op("Add", {whole, product(call, narrow, {5, 6, none}, up)}));
}

const OperatorRow contrib_fused_block_rows[] = {
    {"MatMulNBitsMlp", 1, matmul_nbits_mlp, nullptr, microsoft},
    {"MatMulNBitsQkv", 1, matmul_nbits_qkv, nullptr, microsoft},
    {"MatMulNBitsQLoRA", 1, matmul_nbits_qlora, nullptr, microsoft},
};

}  // namespace

std::span<const OperatorRow> contrib_fused_block_operators() { return contrib_fused_block_rows; }

}  // namespace clprim::onnx
