// What com.microsoft's operators share.
#pragma once

#include <optional>

#include "onnx/call.hpp"

namespace clprim::onnx {

inline constexpr const char* microsoft = "com.microsoft";

// (a - a_zero) a_scale times (b - b_zero) b_scale, plus bias. Zero points and bias may be absent.
struct IntegerProduct {
    Value a, a_zero, a_scale, b, b_zero, b_scale, bias;
};

// The same as one product, with what was prepared of inputs `b` and `b_zero` of the node; nothing where the shapes or
// types have none such.
std::optional<Value> real_product_of_bytes(const Call& call, const IntegerProduct& product, std::size_t b,
                                           std::size_t b_zero);

// The attribute `bits` of block-quantised numbers: 2, 4 or 8.
std::int64_t block_bits(const Call& call);

// Numbers of 2, 4 or 8 bits packed along the last axis, the lowest bits first, each as a byte.
Tensor unpacked(const Call& call, const Tensor& packed, std::int64_t bits);

// Where sequences end among `tokens` that lie one after the other, from 0 on; may wait for the device.
std::vector<std::int64_t> packed_ends(const Call& call, std::size_t input, std::int64_t tokens);

// How many first states of each sequence are to be captured, of at most `capacity`; none where that is 0.
std::vector<std::int64_t> captured_counts(const Call& call, std::size_t input, std::int64_t capacity,
                                          const std::vector<std::int64_t>& ends);

inline constexpr std::size_t none = 1000;   // an input that an operator has not

// Where com.microsoft's Attention and its kin find what comes after the projection.
struct AttentionInputs {
    std::size_t mask, past, bias, past_length;
};

// Attention over x [B, L, q + k + v], the projection of the inputs: outputs 0 and 1 of Attention.
void projected_attention(Call& call, const Value& projected, const AttentionInputs& at);

}  // namespace clprim::onnx
