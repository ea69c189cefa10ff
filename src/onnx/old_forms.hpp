// Operators as the first operator sets wrote them, in their later form.
#pragma once

#include "onnx/graph.hpp"

namespace clprim::onnx {

// Attributes of a node of ONNX's own domain that was just read: its types by name as numbers (Cast), an axis that
// nobody had to write (Concat), scales by the names of axes (Upsample).
void renew_attributes(Node& node);

}  // namespace clprim::onnx
