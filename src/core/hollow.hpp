// Tensors that gave their memory back, while what describes them stays: of weights that kernels have in a layout of
// their own.
#pragma once

#include <clprim/error.hpp>
#include <clprim/tensor.hpp>

namespace clprim::detail {

// Somebody needs the elements of such a tensor after all.
class GivenBack : public Error {
public:
    GivenBack() : Error("the tensor gave its memory back") {}
};

// The same tensor without memory: the next kernel, copy or transfer that takes it throws GivenBack.
Tensor hollow(const Tensor& tensor);
bool is_hollow(const Block& block) noexcept;

}  // namespace clprim::detail
