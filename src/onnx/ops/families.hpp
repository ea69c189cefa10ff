// The rows of every family of ONNX operators; one file each.
#pragma once

#include <span>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

std::span<const OperatorRow> math_operators();            // elementwise with broadcasting, casts
std::span<const OperatorRow> shape_operators();           // shapes, views, concatenation, slices
std::span<const OperatorRow> control_flow_operators();    // If, Loop, Scan

inline std::vector<std::span<const OperatorRow>> families()
{
    return {math_operators(), shape_operators(), control_flow_operators()};
}

}  // namespace clprim::onnx
