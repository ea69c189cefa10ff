// Activations of recurrent layers, as OpenCL C expressions.
#pragma once

#include <string>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

struct RecurrentActivation {
    std::string name;                 // in lower case
    float alpha = 0, beta = 0;

    // Of a variable of type T.
    std::string of(const std::string& variable) const;
};

// `per_direction` activations for each direction; `defaults` (one set) where the node names none.
std::vector<RecurrentActivation> recurrent_activations(const Call& call, std::vector<std::string> defaults,
                                                       std::size_t directions);

}  // namespace clprim::onnx
