// Loop and Scan with few elements as one launch (kernels/loop/small_loop.hpp).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

struct LoopOperands {
    const Graph* body = nullptr;
    bool is_loop = false;                    // Loop: the body begins with the iteration and the condition
    std::int64_t iterations = 0;             // most
    Value condition;                         // of a Loop, before its first iteration
    std::span<const Value> carried;
    std::vector<Tensor> sequences;           // of a Scan, contiguous along axis 0
    std::vector<bool> sequences_backwards, results_backwards;
};

// Carried values and stacked results; nothing where the loop is none of those, or has nothing to do.
std::optional<std::vector<Value>> small_loop(Call& call, const LoopOperands& operands);

}  // namespace clprim::onnx
