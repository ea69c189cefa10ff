// What the fusions ask of nodes and constants.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "onnx/rewriter.hpp"

namespace clprim::onnx {

// A node of ONNX's own with its first `inputs` inputs and one output. Others are left to their handlers, which
// complain.
inline bool is_plain(const Node& node, std::string_view op_type, std::size_t inputs = 1)
{
    const auto given = [](int slot) { return slot != absent; };
    return node.domain.empty() && !node.body && node.op_type == op_type && node.inputs.size() >= inputs &&
           std::all_of(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs), given) &&
           std::ranges::count_if(node.outputs, given) == 1 && given(node.outputs[0]);
}

// Those of a constant of `count` numbers of float32 on the host, or null.
inline const float* float_data(const Value* value, std::int64_t count)
{
    if (!value || !value->is_tensor() || value->type() != ElementType::float32 || !value->on_host() ||
        value->numel() != count)
        return nullptr;
    return reinterpret_cast<const float*>(value->host_bytes());
}

// Input `i`, if it is one number that never changes.
inline std::optional<float> scalar_constant(const Rewriter& rewriter, const Node& node, std::size_t i)
{
    if (i >= node.inputs.size() || node.inputs[i] == absent)
        return std::nullopt;
    const float* data = float_data(rewriter.constant(node.inputs[i]), 1);
    return data ? std::optional(*data) : std::nullopt;
}

}  // namespace clprim::onnx
