// The checks that every public function makes of its operands before it reads anything of them.
#pragma once

#include <initializer_list>

#include <clprim/queue.hpp>
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

// Throws InvalidArgument unless the operand is contiguous and has so many elements of that dtype.
inline void require_elements(std::string_view operator_name, const Operand& operand, std::int64_t count, DataType type)
{
    const Tensor& tensor = operand.tensor;
    require(tensor.numel() == count && tensor.dtype == type && tensor.is_contiguous(), operator_name, ": ",
            operand.name, " must be contiguous and have ", count, count == 1 ? " element of " : " elements of ",
            name_of(type), ", got shape ", to_string(tensor.shape), " of ", name_of(tensor.dtype));
}

// Throws InvalidArgument for a block of another device: devices may share an OpenCL context, so that a driver would
// take its memory, in no order with its work. GivenBack for one that is hollow (core/hollow.hpp).
void require_here(const Queue& queue, const Block& block);

}  // namespace clprim::detail
