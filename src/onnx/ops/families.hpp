// The rows of every family of ONNX operators; one file each.
#pragma once

#include <span>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

std::span<const OperatorRow> math_operators();            // elementwise with broadcasting, casts
std::span<const OperatorRow> shape_operators();           // shapes, views, concatenation, splits
std::span<const OperatorRow> slice_operators();           // slices, borders, constants, ranges
std::span<const OperatorRow> index_operators();           // gather, scatter, nonzero, one-hot
std::span<const OperatorRow> unique_operators();
std::span<const OperatorRow> sequence_operators();        // sequences and optionals
std::span<const OperatorRow> control_flow_operators();    // If, Loop, Scan

inline std::vector<std::span<const OperatorRow>> families()
{
    return {math_operators(), shape_operators(), slice_operators(), index_operators(), unique_operators(),
            sequence_operators(), control_flow_operators()};
}

}  // namespace clprim::onnx
