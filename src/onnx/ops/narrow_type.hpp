// Narrow element types and the kernels' formats.
#pragma once

#include <clprim/narrow.hpp>

#include "onnx/call.hpp"

namespace clprim::onnx {

// The format of a narrow element type; null for other types.
inline const NarrowFormat* narrow_format(ElementType type)
{
    return is_narrow(type) ? &clprim::narrow_format(name_of(type)) : nullptr;
}

// The value on the device as a tensor of a real type, and the other way round. One shape; throws for strings.
Tensor widened(const Call& call, std::size_t input, DataType type);
void convert(Queue& queue, const Tensor& source, ElementType from, const Tensor& target, ElementType to,
             const NarrowOptions& options = {});

}  // namespace clprim::onnx
