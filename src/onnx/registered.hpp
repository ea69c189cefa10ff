// Operators that programs registered (clprim/onnx_operator.hpp).
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

const OperatorRow* find_registered(std::string_view domain, std::string_view name, int opset);

// Whether a node may be run ahead, and once instead of always; only a registered function may not.
bool is_pure(const OperatorRow& row);

}  // namespace clprim::onnx
