// Where elementwise operators write.
#pragma once

#include <span>

#include "onnx/call.hpp"

namespace clprim::onnx {

// Memory for output 0: its place in a concatenation, else laid out as the first operand of that shape, of which only
// some channels may be read.
Tensor result_like(const Call& call, std::span<const Tensor> inputs, const Dims& shape, DataType dtype);

}  // namespace clprim::onnx
