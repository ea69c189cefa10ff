// Weights of experts in com.microsoft's mixtures.
#pragma once

#include "onnx/ops/contrib.hpp"

namespace clprim::onnx {

// What input `input` has for an expert, Value() where it is absent.
Value of_expert(const Call& call, std::size_t input, std::int64_t expert);

// Layer `layer` (1, 2, 3) of an expert of QMoE as [out, in] in float32.
Value quantized_expert(const Call& call, std::size_t layer, std::int64_t expert);

}  // namespace clprim::onnx
