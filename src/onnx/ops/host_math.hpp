// The arithmetic of shapes, on the host: small tensors of int64, int32, bool and float32 that already lie there.
#pragma once

#include "onnx/call.hpp"

namespace clprim::onnx {

// Shapes and sizes have few elements; a larger float tensor is data, which belongs to the device.
inline constexpr std::int64_t most_host_floats = 64;

// Computes the node's operator if its inputs have these types; false otherwise, with nothing done.
bool try_host_math(Call& call);
bool try_host_where(Call& call);
bool try_host_reduce(Call& call);
bool try_host_cast(Call& call);

// A host handler: the attempt, or else the device.
template <bool (*attempt)(Call&), Handler device>
void host_or(Call& call)
{
    if (!attempt(call))
        device(call);
}

}  // namespace clprim::onnx
