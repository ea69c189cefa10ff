// The next Philox state of a generator, for operators that draw random numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <clprim/random.hpp>

#include <runtime/generator.hpp>
#include <runtime/tensor_view.hpp>

namespace torch_ocl {

// One launch takes one offset: its blocks are told apart by their position (clprim/random.hpp).
inline clprim::PhiloxState next_state(const std::optional<at::Generator>& generator, const at::Tensor& tensor)
{
    const PhiloxState state = philox_state(generator, tensor.device(), 1);
    return {state.seed, state.offset};
}

}  // namespace torch_ocl
