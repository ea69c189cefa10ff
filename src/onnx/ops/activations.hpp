// Activations with operands or attributes of their own; rows of math.cpp.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

void clip(Call& call);
void prelu(Call& call);
void shrink(Call& call);
void gelu(Call& call);
void swiglu(Call& call);

}  // namespace clprim::onnx
