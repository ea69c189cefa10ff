// Integers that stand for real numbers.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

// What an integer type of at most 32 bits holds; 0, 0 for other types.
struct IntegerRange {
    std::int64_t low = 0, high = 0;
};
IntegerRange integer_range(ElementType type);

}  // namespace clprim::onnx
