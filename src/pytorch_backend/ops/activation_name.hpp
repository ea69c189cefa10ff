// Names of activations, in operators that apply one to their result (torch_ocl::fused_addmm, fused_convolution).
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>
#include <clprim/activation.hpp>

namespace torch_ocl {

inline clprim::Activation activation_named(std::string_view name, const char* operator_name)
{
    using clprim::Activation;
    static constexpr std::array<std::pair<std::string_view, Activation>, 11> names{{
        {"none", Activation::none}, {"relu", Activation::relu}, {"gelu", Activation::gelu},
        {"gelu_tanh", Activation::gelu_tanh}, {"clip", Activation::clip}, {"leaky_relu", Activation::leaky_relu},
        {"silu", Activation::silu}, {"hard_swish", Activation::hard_swish},
        {"hard_sigmoid", Activation::hard_sigmoid}, {"sigmoid", Activation::sigmoid}, {"relu6", Activation::relu6}}};
    for (const auto& [known, activation] : names)
        if (known == name)
            return activation;
    TORCH_CHECK_VALUE(false, operator_name, ": unknown activation '", name, "'");
}

}  // namespace torch_ocl
