// The checks that every public function makes of its operands before it reads anything of them.
#pragma once

#include <initializer_list>

#include <clprim/tensor.hpp>

namespace clprim::detail {

struct Operand {
    const char* name;
    const Tensor& tensor;
    bool optional = false;   // may be undefined
};
inline constexpr bool optional = true;

// Throws InvalidArgument, naming the operator and the argument; see Tensor::check.
inline void check_operands(std::string_view operator_name, std::initializer_list<Operand> operands)
{
    for (const Operand& operand : operands)
        if (!operand.optional || operand.tensor.defined())
            operand.tensor.check(operator_name, operand.name);
}

}  // namespace clprim::detail
