// Bodies of Loop and Scan as small loops (kernels/loop/small_loop.hpp).
#pragma once

#include <map>
#include <memory>

#include <kernels/loop/small_loop.hpp>

#include "onnx/ops/small_loops.hpp"

namespace clprim::onnx {

// What a small loop is made of, and where its values come from.
struct LoopTranslation {
    std::shared_ptr<const SmallLoopProgram> program;   // null: the body is none
    std::map<std::size_t, int> captured;               // values outside: slots of the outer graph,
    std::map<std::size_t, Value> constants;            // or constants of the body
    std::vector<std::size_t> carried, sequences;
};

// Without a program where the body is no small loop.
LoopTranslation translated_loop(const Call& call, const LoopOperands& operands);

}  // namespace clprim::onnx
