// Attention by a linear recurrence, of ONNX and com.microsoft alike.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

void linear_attention_operator(Call& call);

}  // namespace clprim::onnx
