// Activations that convolutions and products take in, by the names that FusedConv's attribute and Session's fusions
// have.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include <clprim/activation.hpp>

#include "onnx/call.hpp"

namespace clprim::onnx {

struct ActivationRow {
    std::string_view name;
    Activation activation;
    const char* row;                         // of the pointwise table, which computes the same
    std::size_t numbers = 0;                 // of the row: activation_params
};
inline constexpr ActivationRow fused_activations[] = {
    {"", Activation::none, nullptr}, {"Relu", Activation::relu, "relu"}, {"Clip", Activation::clip, "clamp_scalar", 2},
    {"LeakyRelu", Activation::leaky_relu, "leaky_relu", 1}, {"Silu", Activation::silu, "silu"},
    {"HardSwish", Activation::hard_swish, "hardswish"}, {"HardSigmoid", Activation::hard_sigmoid, "clamped_affine", 2},
    {"Sigmoid", Activation::sigmoid, "sigmoid"}, {"Tanh", Activation::tanh, "tanh"},
    {"Gelu", Activation::gelu, "gelu"}, {"GeluTanh", Activation::gelu_tanh, "gelu_tanh"}};

// That of a node's attribute; null for a name that is not known.
inline const ActivationRow* fused_activation(std::string_view name)
{
    const auto* found = std::ranges::find(fused_activations, name, &ActivationRow::name);
    return found == std::end(fused_activations) ? nullptr : found;
}

// That of the call's node; throws for a name that is not known.
inline const ActivationRow& fused_activation(const Call& call)
{
    const std::string name = call.string_attribute("activation", "");
    const ActivationRow* found = fused_activation(name);
    call.check(found, "activation ", name, " is not known");
    return *found;
}

}  // namespace clprim::onnx
